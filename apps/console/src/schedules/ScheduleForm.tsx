/**
 * The form that creates a schedule or changes its settings. Mistakes and the next times are shown while the user types.
 */
import type { ScheduleSpec } from "@stint/contract/Schedule"
import { useMutation } from "@tanstack/react-query"
import { type SubmitEvent, useId, useMemo, useState } from "react"
import { putSchedule } from "../api/Schedules.ts"
import { allZones, inZone, isZone, localZone } from "../format/Zones.ts"
import { useNow } from "../live/Clock.ts"
import { Choice, Field, Text } from "../ui/Fields.tsx"
import { Problem } from "../ui/Loaded.tsx"
import { draftOf, type ScheduleDraft, specOf, timesOf } from "./ScheduleDraft.ts"
import { CATCH_UPS, OVERLAPS } from "./ScheduleWords.ts"

const MINUTE = 60_000

const Preview = ({ cron, timeZone }: { readonly cron: string; readonly timeZone: string }) => {
  // The times change every minute, and computing them takes long for expressions that rarely match.
  const minute = Math.floor(useNow() / MINUTE)
  const found = useMemo(() => timesOf(cron, timeZone, minute * MINUTE), [cron, timeZone, minute])
  if ("reason" in found) return null
  return (
    <div className="field" aria-live="polite">
      <p className="muted">The next times:</p>
      <ol className="plain times">{found.times.map((time) => <li key={time}>{inZone(time, timeZone)}</li>)}</ol>
    </div>
  )
}

/** The form. `endpoints`: where a new schedule may be created. `isTaken`: whether a name is in use. */
export const ScheduleForm = ({ edited, endpoints, isTaken, onClose, onSaved }: {
  readonly edited?: { readonly endpoint: string; readonly name: string; readonly spec: ScheduleSpec }
  readonly endpoints: ReadonlyArray<string>
  readonly isTaken?: (endpoint: string, name: string) => boolean
  readonly onSaved: (endpoint: string, name: string) => void
  readonly onClose: () => void
}) => {
  const [draft, setDraft] = useState<ScheduleDraft>(() => draftOf(edited?.spec))
  const [target, setTarget] = useState({ endpoint: edited?.endpoint ?? endpoints[0] ?? "", name: edited?.name ?? "" })
  const zones = useId()
  const set = (change: Partial<ScheduleDraft>) => setDraft({ ...draft, ...change })
  const checked = useMemo(() => specOf(draft, edited?.spec), [draft, edited])
  const problems = "problems" in checked ? checked.problems : {}
  const name = target.name.trim()
  const nameProblem = isTaken?.(target.endpoint, name) === true
    ? `${target.endpoint} has a schedule ${name}. Choose another name, or change that one.`
    : undefined
  const { error, isPending, mutate } = useMutation({
    mutationFn: (spec: ScheduleSpec) => putSchedule(target.endpoint, name, spec),
    onSuccess: () => onSaved(target.endpoint, name)
  })
  const mayEnd = "spec" in checked && name !== "" && nameProblem === undefined && !isPending
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    if (mayEnd) mutate(checked.spec)
  }
  return (
    <form className="form" onSubmit={submit}>
      {edited === undefined
        ? (
          <>
            <Choice
              label="Endpoint"
              value={target.endpoint}
              options={Object.fromEntries(endpoints.map((endpoint) => [endpoint, endpoint]))}
              onChange={(endpoint) => setTarget({ ...target, endpoint })}
            />
            <Text
              label="Name"
              value={target.name}
              placeholder="nightly"
              problem={nameProblem}
              onChange={(typed) => setTarget({ ...target, name: typed })}
            />
          </>
        )
        : null}
      <div className="states" role="group" aria-label="How often">
        {[true, false].map((repeats) => (
          <button
            key={String(repeats)}
            type="button"
            className="chip"
            aria-pressed={draft.repeats === repeats}
            onClick={() => set({ repeats })}
          >
            {repeats ? "Recurring" : "Once"}
          </button>
        ))}
      </div>
      {draft.repeats
        ? (
          <>
            <Text
              label="Cron expression"
              value={draft.cron}
              placeholder="minute hour day month weekday"
              problem={problems.cron}
              onChange={(cron) => set({ cron })}
            />
            <Text
              label="Time zone"
              value={draft.timeZone}
              list={zones}
              problem={problems.timeZone}
              onChange={(timeZone) => set({ timeZone })}
            />
            <datalist id={zones}>{allZones().map((zone) => <option key={zone} value={zone} />)}</datalist>
            {isZone(draft.timeZone) ? <Preview cron={draft.cron} timeZone={draft.timeZone} /> : null}
          </>
        )
        : (
          <Text
            label={`At, in the zone of this browser (${localZone()})`}
            type="datetime-local"
            value={draft.at}
            problem={problems.at}
            onChange={(at) => set({ at })}
          />
        )}
      <Field label="Input of each job" problem={problems.input}>
        {(id, describedBy) => (
          <textarea
            id={id}
            value={draft.input}
            rows={5}
            spellCheck={false}
            aria-invalid={problems.input !== undefined}
            aria-describedby={describedBy}
            onChange={(event) => set({ input: event.target.value })}
          />
        )}
      </Field>
      <Choice
        label="While the previous job runs"
        value={draft.overlap}
        options={OVERLAPS}
        onChange={(overlap) => set({ overlap })}
      />
      <Choice
        label="After the platform was down"
        value={draft.catchUp}
        options={CATCH_UPS}
        onChange={(catchUp) => set({ catchUp })}
      />
      {draft.catchUp === "all"
        ? (
          <Text
            label="At most this many missed times"
            type="number"
            value={draft.catchUpLimit}
            problem={problems.catchUpLimit}
            onChange={(catchUpLimit) => set({ catchUpLimit })}
          />
        )
        : null}
      <Text
        label="Jitter in seconds: delays each firing by less than this"
        type="number"
        value={draft.jitterSeconds}
        problem={problems.jitterSeconds}
        onChange={(jitterSeconds) => set({ jitterSeconds })}
      />
      {error === null ? null : <Problem error={error} />}
      <div className="actions">
        <button type="submit" className="button primary" disabled={!mayEnd}>
          {edited === undefined ? "Create the schedule" : "Save the settings"}
        </button>
        <button type="button" className="button" onClick={onClose}>Back</button>
      </div>
    </form>
  )
}
