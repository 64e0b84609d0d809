/**
 * The log lines of one node of a run.
 */
import { useQuery } from "@tanstack/react-query"
import { stepLog } from "../api/Runs.ts"
import { LogView } from "../jobs/LogView.tsx"
import { usePoll } from "../live/Connection.ts"
import { Loaded } from "../ui/Loaded.tsx"

/** The lines. `step`: only those of this node. `isLive`: the run may write further lines. */
export const StepLog = ({ endpoint, isLive, job, step }: {
  readonly endpoint: string
  readonly job: string
  readonly step: string | undefined
  readonly isLive: boolean
}) => {
  const poll = usePoll(2_000)
  const query = useQuery({
    // When the run has ended, its last lines are read once more.
    queryKey: ["run", endpoint, job, "log", step, isLive],
    queryFn: ({ signal }) => stepLog(endpoint, job, step, signal),
    refetchInterval: isLive ? poll : false,
    placeholderData: (before) => before
  })
  return (
    <section aria-labelledby="log">
      <h2 id="log">Log</h2>
      <Loaded query={query} rows={2}>{(lines) => <LogView lines={lines} isLive={isLive} />}</Loaded>
    </section>
  )
}
