/**
 * The steps of a run, computed from its journal: one for each path, with the attempts that have their own paths. Pure.
 *
 * ```
 *   charge~1   failed        attempt 1
 *   charge~2~0 sleep, end    the wait before attempt 2        step charge
 *   charge     step          attempt 2
 *   charge~0   failed        why the run failed at the node
 * ```
 *
 * Inputs and outputs stay text. A page has a maximum number of characters, so it may contain fewer steps than requested.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { isTerminal, type JobStatus } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import { nodeOf } from "@stint/contract/NodeAddress"
import type { PipelineGraph } from "@stint/contract/RunJournal"
import { MAX_ATTEMPTS, type RunStep, type StepAttempt } from "@stint/contract/RunSteps"
import { sourcesOf } from "@stint/contract/StepSources"
import { CANCEL_PATH, memberOf, type RunEntry } from "@stint/store/RunMachine"
import { MAX_PAGE_CHARACTERS, type OpenPath } from "@stint/store/RunStore"
import { errorForCaller } from "../jobs/JobView.ts"

/** The fields of a step that an opening entry provides. */
type Opened = Pick<RunStep, "state" | "startedAt" | "job" | "endpoint" | "event" | "until">

type Attempt = { -readonly [Key in keyof StepAttempt]: StepAttempt[Key] | undefined }

/** A step whose input and output are JSON text. Undefined members are absent. */
type StepText =
  & { -readonly [Key in keyof Omit<RunStep, "path" | "input" | "output" | "attempts">]-?: RunStep[Key] | undefined }
  & {
    readonly path: string
    input: JsonText | undefined
    output: JsonText | undefined
    readonly attempts: Array<Attempt>
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

const ENDS: Readonly<Record<string, StepAttempt["state"]>> = {
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

/** The suffixes of attempts: `~2`, and `~2~0` for the wait before it. */
const SUFFIXES = /^(.*?)(?:~(\d+))?(~0)?$/

/** What the path of an entry belongs to. `attempt`: undefined for the path of the step itself. */
interface Place {
  readonly path: string
  readonly attempt: number | undefined
  /** Whether the entry belongs to the wait before the attempt. */
  readonly isWait: boolean
}

const placeOf = (full: string): Place => {
  const [, path = full, attempt, wait] = SUFFIXES.exec(full) ?? []
  return { path, attempt: attempt === undefined ? undefined : Number(attempt), isWait: wait !== undefined }
}

const begun = (path: string, kind: RunStep["kind"]): StepText => ({
  path,
  kind: path.endsWith("~undo") ? "undo" : kind,
  state: "open",
  startedAt: undefined,
  endedAt: undefined,
  job: undefined,
  endpoint: undefined,
  event: undefined,
  until: undefined,
  input: undefined,
  output: undefined,
  error: undefined,
  attempts: [],
  nextAttemptAt: undefined
})

const addAttempt = ({ attempts }: StepText, attempt: Attempt): void => {
  attempts.push(attempt)
  if (attempts.length > MAX_ATTEMPTS) attempts.shift()
}

/** The choice at a stream is the number of chunks before it: the stream begins. */
const isStream = ({ body }: RunEntry): boolean => body?.startsWith("{\"chunks\":") === true

/** Applies an entry to its step. */
const apply = (step: StepText, { attempt, isWait }: Place, entry: RunEntry, endpoint: Pick<Endpoint, "errorTraceback">): void => {
  const { at, body, kind, ms } = entry
  const startedAt = ms === null ? undefined : at - ms
  // An output may have a member with this name, too, and may be large.
  const failure = kind === "failed" || kind === "end" ? memberOf(entry, "error") : undefined
  const error = failure === undefined ? undefined : errorForCaller(failure, endpoint)
  const settle = (state: RunStep["state"]) => {
    step.state = state
    step.startedAt ??= startedAt
    step.endedAt = at
    step.error = error
    step.nextAttemptAt = undefined
  }
  const reopen = () => {
    step.state = "open"
    step.endedAt = undefined
    step.error = undefined
  }
  if (isWait) {
    reopen()
    step.nextAttemptAt = kind === "sleep" ? entry.until ?? undefined : undefined
    return
  }
  step.input ??= entry.input ?? undefined
  switch (kind) {
    case "spawn":
    case "sleep":
    case "wait": {
      const { event, job, startedAt: began, until, ...rest } = opened(entry)
      reopen()
      step.startedAt ??= began
      step.until = until
      step.event = event
      if (kind !== "spawn") return
      step.kind = step.kind === "undo" ? "undo" : "run"
      step.job = job
      step.endpoint = rest.endpoint
      step.nextAttemptAt = undefined
      addAttempt(step, { attempt: attempt ?? 1, state: "open", startedAt: began, endedAt: undefined, job, error: undefined })
      return
    }
    case "choice":
      if (isStream(entry)) {
        step.kind = "step"
        step.startedAt ??= at
        return
      }
      settle("completed")
      step.output = body ?? undefined
      return
    case "event":
      settle("completed")
      step.output = body ?? undefined
      return
    case "step":
    case "undo":
      if (step.job === undefined) {
        const number = (step.attempts.at(-1)?.attempt ?? 0) + 1
        addAttempt(step, { attempt: number, state: "completed", startedAt, endedAt: at, job: undefined, error: undefined })
      }
      settle(kind === "step" ? "completed" : "undone")
      step.output = body ?? undefined
      return
    case "failed":
      // `~0`: the run failed at this node, for a reason that no other entry contains, such as a timeout.
      if (attempt === 0) return settle(step.state === "timed-out" ? "timed-out" : "failed")
      if (step.job === undefined) {
        const number = attempt ?? (step.attempts.at(-1)?.attempt ?? 0) + 1
        addAttempt(step, { attempt: number, state: "failed", startedAt, endedAt: at, job: undefined, error })
      }
      if (attempt === undefined) return settle("failed")
      step.startedAt ??= startedAt
      return
    case "end": {
      const state = ENDS[memberOf(entry, "status") ?? "COMPLETED"] ?? "failed"
      const last = step.attempts.at(-1)
      if (last?.state === "open") Object.assign(last, { state, endedAt: at, error })
      // A job that could not be started.
      else if (step.kind !== "sleep" && step.kind !== "waitFor") {
        addAttempt(step, { attempt: attempt ?? 1, state, startedAt: undefined, endedAt: at, job: undefined, error })
      }
      settle(state)
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
  /** `graph`: the definition of the run, if it is known. */
  readonly page: (status: JobStatus, graph: PipelineGraph | undefined) => StepPage
}

/** The text of a step. */
const textOf = (
  { attempts, input, output, ...step }: StepText,
  isEnded: boolean,
  from: ReadonlyArray<string> | undefined
): string => {
  // An ended run waits for nothing.
  const now = <S extends string>(state: S) => state === "open" && isEnded ? "cancelled" : state
  const isRetried = attempts.length > 1 || (step.state === "open" && attempts.some(({ state }) => state !== "open"))
  const head = JSON.stringify({
    ...step,
    state: now(step.state ?? "open"),
    ...(isRetried ? { attempts: attempts.map((one) => ({ ...one, state: now(one.state ?? "open") })) } : {}),
    ...(input === undefined && from !== undefined ? { input: { from } } : {})
  }).slice(0, -1)
  return `${head}${input === undefined ? "" : `,"input":${input}`}${output === undefined ? "" : `,"output":${output}`}}`
}

/** The paths or nodes whose outputs a step received. */
const sourcesOfStep = (
  { kind, path }: StepText,
  graph: PipelineGraph | undefined,
  recorded: ReadonlySet<string>
): ReadonlyArray<string> | undefined => {
  if (kind === "undo") return [path.replace(/~undo$/, "")]
  const address = nodeOf(path)
  return kind === "step" && graph?.nodes.some((node) => node.address === address) === true
    ? sourcesOf(graph, recorded, address)
    : undefined
}

/** Collects up to `limit` steps after the first `after` steps. The whole journal must be added, because a step may end long after it began. */
export const collector = (
  endpoint: Pick<Endpoint, "errorTraceback">,
  after: number,
  limit: number
): StepCollector => {
  const places = new Map<string, number>()
  const steps: Array<StepText> = []
  /** The position of the first step that did not fit. */
  let cut = Infinity
  let characters = 0

  return {
    add: (entry) => {
      if (entry.path === CANCEL_PATH) return
      const place = placeOf(entry.path)
      const position = places.get(place.path) ?? places.size
      if (!places.has(place.path)) places.set(place.path, position)
      const at = position - after
      if (at < 0 || at >= limit) return
      const size = (entry.body?.length ?? 0) + (entry.input?.length ?? 0)
      if (at > 0 && characters + size > MAX_PAGE_CHARACTERS) cut = Math.min(cut, at)
      if (at >= cut) return
      characters += size
      apply(steps[at] ??= begun(place.path, KINDS[entry.kind]), place, entry, endpoint)
    },
    page: (status, graph) => {
      const kept = steps.slice(0, Math.min(cut, steps.length))
      const end = after + kept.length
      const recorded = new Set([...places.keys()].map(nodeOf))
      return {
        steps: kept.map((step) => textOf(step, isTerminal(status), sourcesOfStep(step, graph, recorded))),
        next: end < places.size ? end : undefined
      }
    }
  }
}
