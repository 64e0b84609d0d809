/**
 * The actions on a schedule: run it now, pause it, resume it.
 */
import type { Schedule } from "@stint/contract/Schedule"
import { useMutation, useQueryClient } from "@tanstack/react-query"
import { changeSchedule } from "../api/Schedules.ts"
import { Problem } from "../ui/Loaded.tsx"

/** The buttons, and why the last action failed. */
export const ScheduleActions = ({ schedule: { endpoint, name, paused } }: { readonly schedule: Schedule }) => {
  const client = useQueryClient()
  const { error, isPending, mutate } = useMutation({
    mutationFn: (change: "pause" | "resume" | "run-now") => changeSchedule(endpoint, name, change),
    onSuccess: () => client.invalidateQueries({ queryKey: ["schedules"] })
  })
  const change = paused ? "resume" : "pause"
  const of = `${name} of ${endpoint}`
  return (
    <>
      <div className="actions">
        <button
          type="button"
          className="button"
          aria-label={`Run now: ${of}`}
          disabled={isPending}
          onClick={() => mutate("run-now")}
        >
          Run now
        </button>
        <button
          type="button"
          className="button"
          aria-label={`${paused ? "Resume" : "Pause"}: ${of}`}
          disabled={isPending}
          onClick={() => mutate(change)}
        >
          {paused ? "Resume" : "Pause"}
        </button>
      </div>
      {error === null ? null : <Problem error={error} />}
    </>
  )
}
