/**
 * The client's I/O as data. `JobsApiCalls.ts` and `JobEventSubscription.ts` determine which requests to send; a driver sends them.
 *
 * ```
 *   JobsApiCalls.ts    yields a Call or a Pause  ---->  a driver          fetch + setTimeout         (FetchDriver.ts)
 *   a generator        <----  is resumed with a Reply   performs it       HttpClient + Effect.sleep  (EffectDriver.ts)
 * ```
 *
 * One implementation of the protocol, with its retries and waits, serves promises and Effect, and the promise client contains no Effect. The
 * alternatives, each measured as one browser bundle, minified and gzipped:
 *
 * ```
 *   HttpApiClient over the contract's Api           82 KB
 *   HttpClient and the contract's Schemas           51 KB
 *   fetch, Effect, Stream and Schemas               32 KB
 *   this, with fetch                                 9 KB
 * ```
 *
 * Tests compare this package with `@stint/contract`: every path here is a route of the contract's `Api`, the types equal the contract's
 * types, and the guards of the promise client accept what the contract's Schemas accept. The Effect client decodes with the Schemas
 * themselves.
 */
import type {
  Health,
  Job,
  JobChunkEvent,
  JobLogLine,
  JobProgressEvent,
  JobReceipt,
  JobStatusEvent,
  Purged,
  RunEventReceipt,
  StreamPage
} from "../ApiTypes.ts"
import type { SseEvent } from "./SseParser.ts"

/** Sends one HTTP request and reads the whole response. */
export interface Call {
  readonly _tag: "Call"
  readonly method: "GET" | "POST"
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** The timeout for the whole response. Milliseconds. */
  readonly timeout: number
}

/**
 * Sends one HTTP request and leaves a `text/event-stream` response open for {@link Read}. Reads any other response completely, like
 * {@link Call}. A driver holds at most one open response: the next `OpenStream` closes the previous one.
 */
export interface OpenStream extends Omit<Call, "_tag"> {
  readonly _tag: "OpenStream"
}

/** Reads the next bytes of the open response. */
export interface Read {
  readonly _tag: "Read"
  /** How long the connection may be silent before it is treated as lost. Milliseconds. */
  readonly timeout: number
}

/** Waits for `atLeast` plus a random part of `spread`, so that many clients do not retry at the same time. */
export interface Pause {
  readonly _tag: "Pause"
  /** Milliseconds. */
  readonly atLeast: number
  /** Milliseconds. */
  readonly spread: number
}

/** The operations of a driver. */
export type Step = Call | OpenStream | Read | Pause

/** A complete response. */
export interface HttpResponse {
  readonly _tag: "HttpResponse"
  /** 0 for a redirect that the browser hides. */
  readonly status: number
  readonly text: string
  readonly retryAfter: string | undefined
  readonly location: string | undefined
  /** The header `x-job-id`: the server created a job for this request. */
  readonly jobId: string | undefined
  /** Milliseconds. */
  readonly took: number
}

/** No response, or an incomplete one. */
export interface NoResponse {
  readonly _tag: "NoResponse"
  readonly cause: unknown
  /** The step's `timeout` expired. */
  readonly timedOut: boolean
  /** The header `x-job-id`, when the connection was lost after the headers had arrived. */
  readonly jobId: string | undefined
  /** Milliseconds. */
  readonly took: number
}

/** The response is an event stream and is now open. */
export interface Opened {
  readonly _tag: "Opened"
  /** Milliseconds. */
  readonly took: number
}

/** The events that the last bytes completed. Empty after a heartbeat, or in the middle of an event. */
export interface Events {
  readonly _tag: "Events"
  readonly events: ReadonlyArray<SseEvent>
  /** Milliseconds. */
  readonly took: number
}

/** The server has ended the open response. */
export interface Closed {
  readonly _tag: "Closed"
  /** Milliseconds. */
  readonly took: number
}

/** The pause has ended. */
export interface PauseEnded {
  readonly _tag: "PauseEnded"
  /** Milliseconds. */
  readonly took: number
}

/**
 * The result of a step.
 *
 * ```
 *   Call         HttpResponse | NoResponse
 *   OpenStream   Opened | HttpResponse | NoResponse
 *   Read         Events | Closed | NoResponse
 *   Pause        PauseEnded
 * ```
 */
export type Reply = HttpResponse | NoResponse | Opened | Events | Closed | PauseEnded

/** A bug in a driver: the reply does not belong to the step. */
export const unexpectedReply = (step: Step["_tag"], reply: Reply): Error =>
  new Error(`The driver replied to ${step} with ${reply._tag}. This is a bug in @stint/client.`)

/** A sequence of steps with a result. Throws a `CallError`. */
export type Program<A> = Generator<Step, A, Reply>

/** Validate response bodies. Each returns undefined for an invalid value. */
export interface Decoders {
  readonly job: (json: unknown) => Job | undefined
  readonly receipt: (json: unknown) => JobReceipt | undefined
  readonly page: (json: unknown) => StreamPage | undefined
  /** The data of events, by event name. */
  readonly events: {
    readonly status: (json: unknown) => JobStatusEvent | undefined
    readonly progress: (json: unknown) => JobProgressEvent | undefined
    readonly chunk: (json: unknown) => JobChunkEvent | undefined
    readonly log: (json: unknown) => JobLogLine | undefined
    readonly end: (json: unknown) => Job | undefined
  }
  readonly purged: (json: unknown) => Purged | undefined
  readonly eventReceipt: (json: unknown) => RunEventReceipt | undefined
  readonly health: (json: unknown) => Health | undefined
}
