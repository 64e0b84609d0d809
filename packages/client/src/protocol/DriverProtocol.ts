/**
 * What the client does to the outside, as data: calls, readings and pauses. `Protocol.ts` and `Following.ts` decide, a driver performs.
 *
 * ```
 *   Protocol.ts        yields a Call or a Pause  ---->  a driver          fetch + setTimeout         (FetchDriver.ts)
 *   a generator        <----  is resumed with a Reply   performs it       HttpClient + Effect.sleep  (EffectDriver.ts)
 * ```
 *
 * So there is one protocol, with its retries and waits, for Effect and for Promises alike, and the Promise side carries no Effect. What the
 * two sides would cost otherwise, one bundle for browsers each, minified and gzipped:
 *
 * ```
 *   HttpApiClient over the contract's Api           82 KB
 *   HttpClient and the contract's Schemas           51 KB
 *   fetch, Effect, Stream and Schemas               32 KB
 *   this, with fetch                                 9 KB
 * ```
 *
 * The contract still rules: the shapes are its types, the Effect side decodes with its Schemas, and tests hold every path here equal to a
 * route of its `Api`, and the Promise side's guards equal to its Schemas.
 */
import type { Health } from "@stint/contract/Health"
import type { Job, JobReceipt, Purged, StreamPage } from "@stint/contract/Job"
import type { JobChunkEvent, JobProgressEvent, JobStatusEvent } from "@stint/contract/JobEvents"
import type { JobLogLine } from "@stint/contract/JobLogLine"

/** One HTTP request. */
export interface Call {
  readonly _tag: "Call"
  readonly method: "GET" | "POST"
  /** The whole address. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
  /** How long the whole answer may take. Milliseconds. */
  readonly timeout: number
}

/**
 * One HTTP request whose answer is read as it comes: `text/event-stream`. Any other answer is read to its end, as with a {@link Call}. A
 * driver keeps one open answer at a time; the next request of this kind closes the one before.
 */
export interface OpenStream extends Omit<Call, "_tag"> {
  readonly _tag: "OpenStream"
}

/** The next part of the open answer. */
export interface Read {
  readonly _tag: "Read"
  /** How long nothing may come before the connection counts as lost. Milliseconds. */
  readonly timeout: number
}

/** Do nothing for a while: at least `atLeast`, and a random part of `spread` more, so that many clients do not come back at once. */
export interface Pause {
  readonly _tag: "Pause"
  /** Milliseconds. */
  readonly atLeast: number
  /** Milliseconds. */
  readonly spread: number
}

/** What a driver can be asked for. */
export type Step = Call | OpenStream | Read | Pause

/** An answer, read to its end. */
export interface HttpResponse {
  readonly _tag: "HttpResponse"
  /** 0 for a redirect that a browser hides. */
  readonly status: number
  readonly text: string
  readonly retryAfter: string | undefined
  readonly location: string | undefined
  /** The header `x-job-id`: a job was made for this request. */
  readonly jobId: string | undefined
  /** Milliseconds. */
  readonly took: number
}

/** No answer, or not all of one. */
export interface NoResponse {
  readonly _tag: "NoResponse"
  readonly cause: unknown
  /** The call's `timeout` ran out. */
  readonly timedOut: boolean
  /** The header `x-job-id`, where the head of the answer came before the connection was lost. */
  readonly jobId: string | undefined
  /** Milliseconds. */
  readonly took: number
}

/** A stream of events has begun. */
export interface Opened {
  readonly _tag: "Opened"
  /** Milliseconds. */
  readonly took: number
}

/** A part of the open answer. */
export interface Part {
  readonly _tag: "Part"
  readonly text: string
  /** Milliseconds. */
  readonly took: number
}

/** The open answer has ended as answers do. */
export interface Closed {
  readonly _tag: "Closed"
  /** Milliseconds. */
  readonly took: number
}

/** The pause is over. */
export interface PauseEnded {
  readonly _tag: "PauseEnded"
  /** Milliseconds. */
  readonly took: number
}

/**
 * What a driver resumes a program with.
 *
 * ```
 *   Call     Answer | NoResponse
 *   OpenStream   Opened | Answer | NoResponse
 *   Read     Part | Closed | NoResponse
 *   Pause    PauseEnded
 * ```
 */
export type Reply = HttpResponse | NoResponse | Opened | Part | Closed | PauseEnded

/** A driver gave a reply of another kind than the step asks for: a mistake of the driver. */
export const unexpectedReply = (step: Step["_tag"], reply: Reply): Error =>
  new Error(`The driver answered ${step} with ${reply._tag}, which is a mistake in @stint/client.`)

/** A conversation with the platform. Throws a `CallError` when it ends without what was asked for. */
export type Program<A> = Generator<Step, A, Reply>

/** What answers are read with. Each gives undefined for what does not fit. */
export interface Decoders {
  readonly job: (json: unknown) => Job | undefined
  readonly receipt: (json: unknown) => JobReceipt | undefined
  readonly page: (json: unknown) => StreamPage | undefined
  /** The data of the events that are named so. */
  readonly events: {
    readonly status: (json: unknown) => JobStatusEvent | undefined
    readonly progress: (json: unknown) => JobProgressEvent | undefined
    readonly chunk: (json: unknown) => JobChunkEvent | undefined
    readonly log: (json: unknown) => JobLogLine | undefined
    readonly end: (json: unknown) => Job | undefined
  }
  readonly purged: (json: unknown) => Purged | undefined
  readonly health: (json: unknown) => Health | undefined
}

/** How patient a client is. Milliseconds. */
export interface Timeouts {
  /**
   * How long an answer may take, besides the time that the platform was asked to hold it. Default 60 s: time for a 20 MB input on a slow
   * line, at the price of noticing a dead connection late.
   */
  readonly timeout: number
  /**
   * How long the platform is asked to hold one waiting request (`wait`, 1 s to 300 s). Default 25 s, because many proxies hang up at 30 s;
   * longer asks less often. However short, waits go on until the job ends.
   */
  readonly wait: number
  /** How long a single call is tried again before it fails: 429, 503 and lost connections. Default 10 s. */
  readonly retryFor: number
  /**
   * How long a wait for a result puts up with a platform that does not answer. Default 5 min, time for a restart or an update. The job
   * itself is not touched when it runs out: ask for its result again.
   */
  readonly reconnectFor: number
}

/** Defaults of {@link Patience}. */
export const DEFAULT_TIMEOUTS: Timeouts = { timeout: 60_000, wait: 25_000, retryFor: 10_000, reconnectFor: 300_000 }

/** A client's settings, checked. */
export interface Settings extends Timeouts {
  /** Where the platform is, without a trailing slash and without `/v2`: as messages show it, and as calls are made. */
  readonly host: string
  /** Headers of every call. The one place where the key is. */
  readonly headers: Readonly<Record<string, string>>
  readonly decoders: Decoders
  /** Makes the idempotency key of a submission that has none. Undefined: it is sent without one. */
  readonly newIdempotencyKey: (() => string) | undefined
}

/** A key that nobody else has: 128 bits by chance. Not `randomUUID`, which browsers have on https pages only. */
export const randomIdempotencyKey = (): string =>
  Array.from(globalThis.crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")

/** The address of the page in a browser, which relative addresses start from. */
const pageAddress = (): string | undefined => {
  const location: unknown = Reflect.get(globalThis, "location")
  if (typeof location !== "object" || location === null || !("href" in location)) return undefined
  return typeof location.href === "string" ? location.href : undefined
}

const addressOf = (text: string): URL | undefined => {
  try {
    return new URL(text, pageAddress())
  } catch {
    return undefined
  }
}

/**
 * An address of a platform in the form that {@link Settings} want: `/v2` at its end, as clients of the described platform write it, is
 * taken off. In a browser it may be relative to the page. Throws a TypeError that says what is wrong with it.
 */
export const normalizeBaseUrl = (baseUrl: string | URL): string => {
  const url = addressOf(String(baseUrl))
  if (url === undefined) {
    throw new TypeError(`baseUrl is "${String(baseUrl)}", which is no address. Write it like http://127.0.0.1:4600.`)
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new TypeError(`baseUrl starts with ${url.protocol}, not with http: or https:. Write it like http://127.0.0.1:4600.`)
  }
  // Not shown: it holds a password.
  if (url.username !== "" || url.password !== "") {
    throw new TypeError("baseUrl has a user name or a password in it. Leave them out, and give the key as apiKey.")
  }
  return url.origin + url.pathname.replace(/\/+$/, "").replace(/\/v2$/, "")
}

/** The headers of every call with this key. Without one (a proxy of yours adds it) there is no `authorization`. */
export const requestHeaders = (apiKey: string | undefined): Readonly<Record<string, string>> => {
  const key = (apiKey ?? "").trim()
  // Anything else cannot stand in a header; `fetch` would say so in a message that repeats the key.
  if (/[^\x21-\x7e]/.test(key)) throw new TypeError("apiKey holds a space, a line break or a character that no key has.")
  return key === "" ? { accept: "application/json" } : { accept: "application/json", authorization: `Bearer ${key}` }
}
