/**
 * Performs programs against a script: no sockets, no clocks. Every call is answered by the next entry; pauses take as long as they say.
 */
import { expect } from "vitest"
import { CallError } from "../src/CallError.ts"
import {
  type Call,
  type Closed,
  DEFAULT_TIMEOUTS,
  type HttpResponse,
  type NoResponse,
  type Opened,
  type OpenStream,
  type Part,
  type Pause,
  type Program,
  requestHeaders,
  type Step
} from "../src/protocol/DriverProtocol.ts"
import { decoders } from "../src/protocol/ResponseGuards.ts"
import type { Target } from "../src/protocol/RetriedRequest.ts"

export const KEY = "a-secret-key-0123456789"

export const target = (over: Partial<Target> = {}): Target => ({
  ...DEFAULT_TIMEOUTS,
  host: "http://platform.test",
  headers: requestHeaders(KEY),
  decoders,
  newIdempotencyKey: undefined,
  endpoint: "ep",
  ...over
})

export type Entry = HttpResponse | NoResponse | Opened | Part | Closed

export const answer = (status: number, body: unknown, over: Partial<Omit<HttpResponse, "_tag">> = {}): HttpResponse => ({
  _tag: "HttpResponse",
  status,
  text: typeof body === "string" ? body : JSON.stringify(body),
  retryAfter: undefined,
  location: undefined,
  jobId: undefined,
  took: 5,
  ...over
})

const failure = (code: string) => new TypeError("fetch failed", { cause: Object.assign(new Error(`it was ${code}`), { code }) })

/** Nobody listens there. */
export const refused: NoResponse = {
  _tag: "NoResponse",
  cause: failure("ECONNREFUSED"),
  timedOut: false,
  jobId: undefined,
  took: 1
}

/** The connection was lost after the request had gone out. */
export const cut = (took = 10, jobId?: string): NoResponse => ({
  _tag: "NoResponse",
  cause: failure("ECONNRESET"),
  timedOut: false,
  jobId,
  took
})

export const silent: NoResponse = { _tag: "NoResponse", cause: undefined, timedOut: true, jobId: undefined, took: 60_000 }

/** A problem body as the platform writes them. */
export const problem = (status: number, kind: string, over: object = {}): HttpResponse =>
  answer(status, { type: `/problems/${kind}`, title: kind, status, detail: "What.", error: "What.", hint: "Do this.", ...over })

/** A stream of events has begun. */
export const opened: Opened = { _tag: "Opened", took: 1 }

/** A part of it. */
export const part = (text: string, took = 1): Part => ({ _tag: "Part", text, took })

/** Its end. */
export const closed: Closed = { _tag: "Closed", took: 1 }

export const job = (status: string, over: object = {}) => ({ id: "j1", status, ...over })

/** What a program did, and how it ended. */
export interface Performed<A> {
  readonly steps: ReadonlyArray<Step>
  readonly calls: ReadonlyArray<Call | OpenStream>
  readonly pauses: ReadonlyArray<Pause>
  /** Milliseconds of all calls and pauses. */
  readonly took: number
  readonly value: A | undefined
  readonly error: CallError | undefined
}

/** Performs a program. `script` gives the answer to each call and each reading; the last one is repeated. */
export const perform = <A>(program: Program<A>, script: ReadonlyArray<Entry>, limit = 10_000): Performed<A> => {
  let at = 0
  return performWith(program, () => script[Math.min(at++, script.length - 1)]!, limit)
}

/** Performs a program. `reply` gives the answer to each call and each reading. */
export const performWith = <A>(
  program: Program<A>,
  reply: (step: Exclude<Step, Pause>) => Entry,
  limit = 10_000
): Performed<A> => {
  const steps: Array<Step> = []
  let took = 0
  const done = (end: { readonly value?: A; readonly error?: CallError }): Performed<A> => ({
    steps,
    calls: steps.filter((step) => step._tag === "Call" || step._tag === "OpenStream"),
    pauses: steps.filter((step) => step._tag === "Pause"),
    took,
    value: end.value,
    error: end.error
  })
  try {
    let next = program.next()
    while (next.done !== true) {
      const step = next.value
      steps.push(step)
      expect(steps.length).toBeLessThan(limit)
      if (step._tag === "Pause") {
        took += step.atLeast
        next = program.next({ _tag: "PauseEnded", took: step.atLeast })
      } else {
        const entry = reply(step)
        took += entry.took
        next = program.next(entry)
      }
    }
    return done({ value: next.value })
  } catch (error) {
    if (error instanceof CallError) return done({ error })
    throw error
  }
}
