/**
 * Runs programs against a script, without sockets or clocks. Each request receives the next entry, and pauses have their shortest
 * duration.
 */
import { expect } from "vitest"
import { CallError } from "../src/CallError.ts"
import { DEFAULT_TIMEOUTS, requestHeaders } from "../src/ClientSettings.ts"
import type {
  Call,
  Closed,
  HttpResponse,
  NoResponse,
  Opened,
  OpenStream,
  Pause,
  Program,
  Step
} from "../src/protocol/DriverProtocol.ts"
import { decoders } from "../src/protocol/ResponseGuards.ts"
import type { Target } from "../src/protocol/RetriedRequest.ts"
import { SseParser } from "../src/protocol/SseParser.ts"

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

/** Text of the open event stream. */
export interface Part {
  readonly _tag: "Part"
  readonly text: string
  readonly took: number
}

export type Entry = HttpResponse | NoResponse | Opened | Part | Closed

export const response = (status: number, body: unknown, over: Partial<Omit<HttpResponse, "_tag">> = {}): HttpResponse => ({
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

/** The connection was refused. */
export const refused: NoResponse = {
  _tag: "NoResponse",
  cause: failure("ECONNREFUSED"),
  timedOut: false,
  jobId: undefined,
  took: 1
}

/** The connection was lost after the request was sent. */
export const cut = (took = 10, jobId?: string): NoResponse => ({
  _tag: "NoResponse",
  cause: failure("ECONNRESET"),
  timedOut: false,
  jobId,
  took
})

export const silent: NoResponse = { _tag: "NoResponse", cause: undefined, timedOut: true, jobId: undefined, took: 60_000 }

/** A problem body from the platform. */
export const problem = (status: number, kind: string, over: object = {}): HttpResponse =>
  response(status, { type: `/problems/${kind}`, title: kind, status, detail: "What.", error: "What.", hint: "Do this.", ...over })

/** An event stream opens. */
export const opened: Opened = { _tag: "Opened", took: 1 }

/** Text of the event stream arrives. */
export const part = (text: string, took = 1): Part => ({ _tag: "Part", text, took })

/** The event stream closes. */
export const closed: Closed = { _tag: "Closed", took: 1 }

export const job = (status: string, over: object = {}) => ({ id: "j1", status, ...over })

/** The steps and the result of a program. */
export interface Performed<A> {
  readonly steps: ReadonlyArray<Step>
  readonly calls: ReadonlyArray<Call | OpenStream>
  readonly pauses: ReadonlyArray<Pause>
  /** The duration of all calls and pauses. Milliseconds. */
  readonly took: number
  readonly value: A | undefined
  readonly error: CallError | undefined
}

/** Runs a program. `script` contains the reply to each request and each read; the last entry repeats. */
export const perform = <A>(program: Program<A>, script: ReadonlyArray<Entry>, limit = 10_000): Performed<A> => {
  let at = 0
  return performWith(program, () => script[Math.min(at++, script.length - 1)]!, limit)
}

/** Runs a program. `reply` returns the reply to each request and each read. */
export const performWith = <A>(
  program: Program<A>,
  reply: (step: Exclude<Step, Pause>) => Entry,
  limit = 10_000
): Performed<A> => {
  const steps: Array<Step> = []
  let took = 0
  let parser = new SseParser()
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
        if (entry._tag === "Opened") parser = new SseParser()
        next = program.next(
          entry._tag === "Part" ? { _tag: "Events", events: parser.feed(entry.text), took: entry.took } : entry
        )
      }
    }
    return done({ value: next.value })
  } catch (error) {
    if (error instanceof CallError) return done({ error })
    throw error
  }
}
