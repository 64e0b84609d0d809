/**
 * A client's settings: the platform's URL, the request headers and the timeouts.
 */
import type { Decoders } from "./protocol/DriverProtocol.ts"

/** A client's timeouts. Milliseconds. */
export interface Timeouts {
  /**
   * How long a response may take, in addition to the wait that the client requested. Default 60 s, which is enough for a 20 MB input over
   * a slow connection; the trade-off is that dead connections are noticed late.
   */
  readonly timeout: number
  /**
   * How long the platform holds one long poll (`?wait=`, 1 s to 300 s). Default 25 s, because many proxies close idle connections after 30
   * s; longer waits send fewer requests. The client repeats the poll until the job ends, so a short value does not shorten the whole wait.
   */
  readonly wait: number
  /** How long a single call is retried after 429, 503 and lost connections. Default 10 s. */
  readonly retryFor: number
  /**
   * How long a wait for a result tolerates an unreachable platform. Default 5 min: enough for a restart or an update. When this time runs
   * out, the job continues; call `result` to resume the wait.
   */
  readonly reconnectFor: number
}

/** Defaults of {@link Timeouts}. */
export const DEFAULT_TIMEOUTS: Timeouts = { timeout: 60_000, wait: 25_000, retryFor: 10_000, reconnectFor: 300_000 }

/** The validated settings of a client. */
export interface Settings extends Timeouts {
  /** The platform's URL without a trailing slash and without `/v2`, as used in requests and messages. */
  readonly host: string
  /** The headers of every request. The key is stored only here. */
  readonly headers: Readonly<Record<string, string>>
  readonly decoders: Decoders
  /** Generates the idempotency key for a submission that has none. If undefined, the submission is sent without a key. */
  readonly newIdempotencyKey: (() => string) | undefined
}

/** A random key of 128 bits. Does not use `randomUUID`, which browsers provide only on https pages. */
export const randomIdempotencyKey = (): string =>
  Array.from(globalThis.crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("")

/** The URL of the page, in a browser. Relative base URLs are resolved against it. */
const pageUrl = (): string | undefined => {
  const location: unknown = Reflect.get(globalThis, "location")
  if (typeof location !== "object" || location === null || !("href" in location)) return undefined
  return typeof location.href === "string" ? location.href : undefined
}

const parseUrl = (text: string): URL | undefined => {
  try {
    return new URL(text, pageUrl())
  } catch {
    return undefined
  }
}

/**
 * The platform's URL in the form of {@link Settings}: removes the `/v2` that RunPod clients append. In a browser the URL may be relative to
 * the page. Throws a TypeError for an invalid URL.
 */
export const normalizeBaseUrl = (baseUrl: string | URL): string => {
  const url = parseUrl(String(baseUrl))
  if (url === undefined) {
    throw new TypeError(`baseUrl "${String(baseUrl)}" is not a URL. Write it like http://127.0.0.1:4600.`)
  }
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new TypeError(`baseUrl starts with ${url.protocol}, not with http: or https:. Write it like http://127.0.0.1:4600.`)
  }
  // The message does not repeat the URL, because it contains a password.
  if (url.username !== "" || url.password !== "") {
    throw new TypeError("baseUrl contains a user name or a password. Remove them, and pass the key as apiKey.")
  }
  return url.origin + url.pathname.replace(/\/+$/, "").replace(/\/v2$/, "")
}

/** The headers of every request with this key. Without a key, there is no `authorization` header, because a proxy may add it. */
export const requestHeaders = (apiKey: string | undefined): Readonly<Record<string, string>> => {
  const key = (apiKey ?? "").trim()
  // `fetch` would reject such a header with a message that repeats the key.
  if (/[^\x21-\x7e]/.test(key)) {
    throw new TypeError("apiKey contains a space, a line break or a character that keys never contain.")
  }
  return key === "" ? { accept: "application/json" } : { accept: "application/json", authorization: `Bearer ${key}` }
}
