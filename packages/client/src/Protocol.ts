/**
 * The calls of the jobs API (wire-facts 1.1) and the ways to wait, as programs that any driver performs.
 *
 * ```
 *   runSync    POST runsync --ended--> the job
 *                 | still going
 *   result     GET status-sync --ended--> the job
 *                 ^ | still going, however long: held by the platform, never polled
 *                 +-+ connection lost, 5xx, restart: again, for `reconnectFor`
 *
 *   chunks     GET stream --> what nobody has read yet, in order
 *                 ^ | not ended
 *                 +-+
 *                   | ended: with, or after, the last chunk
 * ```
 */
import type { Health } from "@stint/contract/Health"
import type { Job, JobReceipt, Purged, RunRequest, StreamPage } from "@stint/contract/Job"
import { type Asked, CallError, explainAnswer, type Explained, explainSilence, parsed, unexpected } from "./CallError.ts"
import { type EndedJob, hasEnded } from "./Ending.ts"
import { backoff, mayRepeat, pauseAfter, type Repeat } from "./Retry.ts"
import type { Call, Pause, Program, Settings } from "./Wire.ts"

/** What a caller may ask for one job: the contract's options, and our own. */
export interface SubmitOptions extends Omit<RunRequest, "idempotencyKey" | "input"> {
  /**
   * Sent as `Idempotency-Key`: the same key makes one job, however often it is sent. Only with it a submission is sent again when it is not
   * known whether the first one arrived. Stint honours it; a platform that ignores it makes a job of each.
   */
  readonly idempotencyKey?: string | undefined
}

/** A client's settings, and the endpoint that is spoken of. */
export interface Target extends Settings {
  readonly endpoint: string
}

function* rest(pause: Pause): Program<number> {
  return (yield pause).took
}

interface Exchange<A> {
  readonly target: Target
  readonly asked: Omit<Asked, "host" | "endpoint">
  /** The call; made anew for every try, because a wait may learn to be shorter. */
  readonly call: () => Call
  readonly read: (json: unknown) => A | undefined
  readonly repeat: Repeat
  /** How long it is tried again. Milliseconds. */
  readonly patience: number
  /** Added to the hint of a failure that leaves open whether something was done. */
  readonly doubt?: string
  /** Hears of every try that failed, and how long it took. */
  readonly onFailure?: (took: number) => void
}

/** An answer that was got and understood. */
interface Got<A> {
  readonly value: A
  /** Milliseconds. */
  readonly took: number
}

const isDoubtful = ({ reason }: Explained): boolean =>
  reason._tag === "Unreachable" ? reason.sent : reason._tag === "Unavailable" && reason.status !== 503

/** Sends a call, as often as it makes sense, and reads the answer. */
function* exchange<A>({ asked, call, doubt, onFailure, patience, read, repeat, target }: Exchange<A>): Program<Got<A>> {
  let failures = 0
  /** Since the first failure. */
  let failing = 0
  while (true) {
    const reply = yield call()
    if (reply._tag === "Rested") throw new Error("A driver rested where it was to call.")
    let explained: Explained
    if (reply._tag === "Silence") {
      explained = explainSilence(reply)
    } else if (reply.status === 200) {
      const value = read(parsed(reply.text))
      if (value !== undefined) return { value, took: reply.took }
      explained = unexpected(
        reply,
        "The answer was 200, but not what a platform says.",
        "Something else answers at this address (a proxy, a login page), or the platform is of another version."
      )
    } else {
      explained = explainAnswer(reply)
    }
    if (failures > 0) failing += reply.took
    failures += 1
    onFailure?.(reply.took)
    const pause = pauseAfter(explained.reason, failures)
    if (!mayRepeat(explained.reason, repeat) || failing + pause.atLeast > patience) {
      const hint = doubt !== undefined && isDoubtful(explained) ? `${explained.hint} ${doubt}` : explained.hint
      throw new CallError(
        { ...explained, hint, ...asked, host: target.host, endpoint: target.endpoint },
        reply._tag === "Silence" ? { cause: reply.cause } : undefined
      )
    }
    failing += yield* rest(pause)
  }
}

const callOf = (
  { endpoint, headers, host, timeout }: Target,
  method: "GET" | "POST",
  path: string,
  options: { readonly hold?: number; readonly body?: string; readonly headers?: Readonly<Record<string, string>> } = {}
): Call => {
  const { body, hold } = options
  return {
    _tag: "Call",
    method,
    url: `${host}/v2/${encodeURIComponent(endpoint)}/${path}${hold === undefined ? "" : `?wait=${Math.round(hold)}`}`,
    headers: {
      ...headers,
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...options.headers
    },
    ...(body === undefined ? {} : { body }),
    timeout: timeout + (hold ?? 0)
  }
}

const UNKNOWN_JOB =
  "It is not known whether a job was made of it; an idempotencyKey lets the client find out by sending it again."

/** What a submission is sent as. */
const submission = ({ idempotencyKey, ...options }: SubmitOptions, input: unknown) => ({
  // Undefined does not exist in JSON, and a handler without input has to be callable.
  body: JSON.stringify({ ...options, input: input === undefined ? null : input }),
  headers: idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey },
  repeat: idempotencyKey === undefined ? "once" as const : "repeatable" as const
})

/** Submits a job, and tells its id. */
export function* run(target: Target, input: unknown, options: SubmitOptions, operation = "run"): Program<JobReceipt> {
  const { repeat, ...sent } = submission(options, input)
  const { value } = yield* exchange({
    target,
    asked: { operation },
    call: () => callOf(target, "POST", "run", sent),
    read: target.readers.receipt,
    repeat,
    patience: target.retryFor,
    doubt: UNKNOWN_JOB
  })
  return value
}

/** Submits a job, and waits until it ends. One request, where the job is quick. */
export function* runSync(target: Target, input: unknown, options: SubmitOptions): Program<EndedJob> {
  const { repeat, ...sent } = submission(options, input)
  const { value } = yield* exchange({
    target,
    asked: { operation: "runSync" },
    call: () => callOf(target, "POST", "runsync", { ...sent, hold: target.wait }),
    read: target.readers.job,
    repeat,
    patience: target.retryFor,
    doubt: UNKNOWN_JOB
  })
  return hasEnded(value) ? value : yield* result(target, value.id, "runSync")
}

/** The platform holds no request for less. Milliseconds. */
const SHORTEST_WAIT = 1_000

/**
 * How long the next request is to be held. Something between here and the platform may hang up earlier than the wait ends; then the next
 * wait is shorter than that, and grows again slowly.
 */
class Hold {
  millis: number
  readonly #most: number
  /** Answers in a row that came at once although there was something to wait for. */
  #quick = 0

  constructor(most: number) {
    this.#most = most
    this.millis = most
  }

  lost(took: number): void {
    if (took > SHORTEST_WAIT) this.millis = Math.max(SHORTEST_WAIT, Math.min(this.millis, took) * 0.8)
  }

  /** The pause before the next request, if any: a platform that does not hold requests is not asked without end. */
  kept(took: number, moved: boolean): Pause | undefined {
    this.millis = Math.min(this.#most, this.millis * 1.25)
    this.#quick = moved || took >= Math.min(SHORTEST_WAIT, this.#most) / 2 ? 0 : this.#quick + 1
    return this.#quick === 0 ? undefined : backoff(this.#quick, 2_000)
  }
}

/** Waits until a job ends, however long it takes. */
export function* result(target: Target, id: string, operation = "result"): Program<EndedJob> {
  const hold = new Hold(target.wait)
  while (true) {
    const { took, value } = yield* exchange({
      target,
      asked: { operation, job: id },
      call: () => callOf(target, "GET", `status-sync/${encodeURIComponent(id)}`, { hold: hold.millis }),
      read: target.readers.job,
      repeat: "repeatable",
      patience: target.reconnectFor,
      doubt: "The job goes on without this wait: ask for its result again.",
      onFailure: (took) => hold.lost(took)
    })
    if (hasEnded(value)) return value
    const pause = hold.kept(took, false)
    if (pause !== undefined) yield* rest(pause)
  }
}

/** What reading a stream once gave. */
export interface Chunks {
  readonly outputs: ReadonlyArray<StreamPage["stream"][number]["output"]>
  /** Set once the job has ended and everything is read. */
  readonly ended: EndedJob | undefined
}

/** Reads a job's stream to its end: each program is the next page. Every chunk is given to one reader only (wire-facts 1.1). */
export const reader = (target: Target, id: string, operation = "stream"): () => Program<Chunks> => {
  const hold = new Hold(target.wait)
  let pause: Pause | undefined
  return function*() {
    while (true) {
      if (pause !== undefined) yield* rest(pause)
      const { took, value } = yield* exchange({
        target,
        asked: { operation, job: id },
        call: () => callOf(target, "GET", `stream/${encodeURIComponent(id)}`, { hold: hold.millis }),
        read: target.readers.page,
        repeat: "once",
        patience: target.reconnectFor,
        doubt: "Chunks that were on their way are lost. The job goes on: its result can be asked for, and what it still streams."
      })
      const { stream, ...job } = value
      const outputs = stream.map(({ output }) => output)
      const ended = hasEnded(job) ? job : undefined
      pause = ended === undefined ? hold.kept(took, outputs.length > 0) : undefined
      if (outputs.length > 0 || ended !== undefined) return { outputs, ended }
    }
  }
}

/** A job as it is now; while IN_PROGRESS `output` is its latest progress. */
export function* status(target: Target, id: string): Program<Job> {
  const { value } = yield* exchange({
    target,
    asked: { operation: "status", job: id },
    call: () => callOf(target, "GET", `status/${encodeURIComponent(id)}`),
    read: target.readers.job,
    repeat: "repeatable",
    patience: target.retryFor
  })
  return value
}

/** Ends a job: a waiting one is dropped, a running one is stopped. The receipt of an ended job says how it had ended. */
export function* cancel(target: Target, id: string): Program<JobReceipt> {
  const { value } = yield* exchange({
    target,
    asked: { operation: "cancel", job: id },
    call: () => callOf(target, "POST", `cancel/${encodeURIComponent(id)}`),
    read: target.readers.receipt,
    repeat: "repeatable",
    patience: target.retryFor
  })
  return value
}

/** Runs a FAILED or TIMED_OUT job again, under its id. Any other gets `Conflict`. */
export function* retry(target: Target, id: string): Program<JobReceipt> {
  const { value } = yield* exchange({
    target,
    asked: { operation: "retry", job: id },
    call: () => callOf(target, "POST", `retry/${encodeURIComponent(id)}`),
    read: target.readers.receipt,
    repeat: "once",
    patience: target.retryFor,
    doubt: "Look at the job's status before you retry it again."
  })
  return value
}

/** Removes all waiting jobs of the endpoint. */
export function* purgeQueue(target: Target): Program<Purged> {
  const { value } = yield* exchange({
    target,
    asked: { operation: "purgeQueue" },
    call: () => callOf(target, "POST", "purge-queue"),
    read: target.readers.purged,
    repeat: "once",
    patience: target.retryFor
  })
  return value
}

/** Jobs and workers of the endpoint, by state. */
export function* health(target: Target): Program<Health> {
  const { value } = yield* exchange({
    target,
    asked: { operation: "health" },
    call: () => callOf(target, "GET", "health"),
    read: target.readers.health,
    repeat: "repeatable",
    patience: target.retryFor
  })
  return value
}
