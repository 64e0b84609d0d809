/**
 * The steps of a run, computed from its journal: one for each path. Pure.
 *
 * Outputs stay text. A page has a maximum number of characters, so it may contain fewer steps than requested.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { isTerminal, type JobStatus } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import type { RunStep } from "@stint/contract/RunSteps"
import { CANCEL_PATH, memberOf, type RunEntry } from "@stint/store/RunMachine"
import { MAX_PAGE_CHARACTERS, type OpenPath } from "@stint/store/RunStore"
import { errorForCaller } from "../jobs/JobView.ts"

/** The fields of a step that an opening entry provides. */
type Opened = Pick<RunStep, "state" | "startedAt" | "job" | "endpoint" | "event" | "until">

/** A step whose output is JSON text. */
interface StepText extends Omit<RunStep, "output"> {
  readonly output?: JsonText | undefined
}

const KINDS: Readonly<Record<RunEntry["kind"], RunStep["kind"]>> = {
  step: "step",
  failed: "step",
  choice: "choice",
  undo: "undo",
  spawn: "run",
  sleep: "sleep",
  wait: "waitFor",
  event: "waitFor",
  // Only a job that could not be started has an end without an earlier entry.
  end: "run"
}

const ENDS: Readonly<Record<string, RunStep["state"]>> = {
  COMPLETED: "completed",
  FAILED: "failed",
  CANCELLED: "cancelled",
  TIMED_OUT: "timed-out"
}

const opened = ({ at, body, kind, until }: Pick<RunEntry, "at" | "body" | "kind" | "until">): Opened => {
  const [endpoint, job] = kind === "spawn" ? [memberOf({ body }, "endpoint"), memberOf({ body }, "job")] : []
  const event = kind === "wait" ? { name: memberOf({ body }, "name") ?? "", key: memberOf({ body }, "key") ?? "" } : undefined
  return {
    state: "open",
    startedAt: at,
    ...(job === undefined ? {} : { job }),
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(event === undefined ? {} : { event }),
    ...(until === null ? {} : { until })
  }
}

/** An open path of a run, for an explanation. */
export const openStep = (open: OpenPath): RunStep => ({
  path: open.path,
  kind: KINDS[open.kind],
  ...opened(open)
})

/** How an entry changes the step of its path. */
const changes = (entry: RunEntry, endpoint: Pick<Endpoint, "errorTraceback">): Partial<StepText> => {
  const { at, body, kind, ms } = entry
  const began = ms === null ? {} : { startedAt: at - ms }
  switch (kind) {
    case "spawn":
    case "sleep":
    case "wait":
      return opened(entry)
    case "step":
    case "event":
    case "choice":
      return { state: "completed", ...began, endedAt: at, output: body ?? undefined }
    case "undo":
      return { state: "undone", ...began, endedAt: at, output: body ?? undefined }
    case "failed":
    case "end": {
      const error = memberOf(entry, "error")
      return {
        state: kind === "failed" ? "failed" : ENDS[memberOf(entry, "status") ?? "COMPLETED"] ?? "failed",
        ...began,
        endedAt: at,
        ...(error === undefined ? {} : { error: errorForCaller(error, endpoint) })
      }
    }
  }
}

/** The page of steps that begins after `after` steps. */
export interface StepPage {
  readonly steps: ReadonlyArray<string>
  readonly next: number | undefined
}

/** Collects one page of steps. */
export interface StepCollector {
  /** Adds the next entry of the journal. */
  readonly add: (entry: RunEntry) => void
  readonly page: (status: JobStatus) => StepPage
}

/** Collects up to `limit` steps after the first `after` steps. The whole journal must be added, because a step may end long after it began. */
export const collector = (
  endpoint: Pick<Endpoint, "errorTraceback">,
  after: number,
  limit: number
): StepCollector => {
  const places = new Map<string, number>()
  const steps: Array<StepText> = []
  /** The position of the first step whose output did not fit. */
  let cut = Infinity
  let characters = 0

  return {
    add: (entry) => {
      const { kind, path } = entry
      if (path === CANCEL_PATH) return
      const place = places.get(path) ?? places.size
      if (!places.has(path)) places.set(path, place)
      const at = place - after
      if (at < 0 || at >= limit) return
      const change = changes(entry, endpoint)
      const size = change.output?.length ?? 0
      if (at > 0 && characters + size > MAX_PAGE_CHARACTERS) cut = Math.min(cut, at)
      if (at >= cut) return
      characters += size
      steps[at] = { ...(steps[at] ?? { path, kind: KINDS[kind], state: "open" }), ...change }
    },
    page: (status) => {
      const kept = steps.slice(0, Math.min(cut, steps.length))
      const end = after + kept.length
      return {
        steps: kept.map(({ output, state, ...step }) => {
          // An ended run waits for nothing.
          const known = { ...step, state: state === "open" && isTerminal(status) ? "cancelled" : state }
          const text = JSON.stringify(known)
          return output === undefined ? text : `${text.slice(0, -1)},"output":${output}}`
        }),
        next: end < places.size ? end : undefined
      }
    }
  }
}
