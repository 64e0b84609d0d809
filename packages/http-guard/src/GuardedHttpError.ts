/**
 * Why a guarded request failed. The messages never contain a URL's query or password, which may be secret.
 */
import * as Schema from "effect/Schema"
import { NotResolved } from "./Resolver.ts"

/** The text is not a URL that can be requested. */
export class InvalidUrl extends Schema.TaggedError<InvalidUrl>()("InvalidUrl", { detail: Schema.String }) {}

/** The host is, or resolves to, a forbidden address. No connection was made. */
export class Forbidden extends Schema.TaggedError<Forbidden>()("Forbidden", {
  host: Schema.String,
  address: Schema.String,
  /** The name of the range, from `AddressGuard.reasonOf`. */
  range: Schema.String
}) {}

/** No connection could be made, or it was lost before the response began. */
export class Unreachable extends Schema.TaggedError<Unreachable>()("Unreachable", { detail: Schema.String }) {}

/** The certificate is not valid for the host. Nothing was sent. */
export class InvalidCertificate
  extends Schema.TaggedError<InvalidCertificate>()("InvalidCertificate", { detail: Schema.String })
{}

/** A time limit was exceeded. */
export class TimedOut extends Schema.TaggedError<TimedOut>()("TimedOut", {
  /** `body`: the connection was silent during the body. `total`: the whole request took too long. */
  phase: Schema.Literals(["resolve", "connect", "headers", "body", "total"]),
  /** Milliseconds. */
  limit: Schema.Number
}) {}

/** Too many redirects. */
export class TooManyRedirects extends Schema.TaggedError<TooManyRedirects>()("TooManyRedirects", { limit: Schema.Int }) {}

/** A redirect that is not followed: to a URL that is not http, or from https to http. */
export class BadRedirect extends Schema.TaggedError<BadRedirect>()("BadRedirect", { detail: Schema.String }) {}

/** The decoded body exceeds the limit. */
export class TooLarge extends Schema.TaggedError<TooLarge>()("TooLarge", {
  /** Bytes. */
  limit: Schema.Number,
  /** Bytes that the server announced; undefined if it announced none. */
  announced: Schema.UndefinedOr(Schema.Number)
}) {}

/** The connection was lost in the middle of the body. */
export class ConnectionLost extends Schema.TaggedError<ConnectionLost>()("ConnectionLost", {
  /** The decoded bytes received before that. */
  received: Schema.Number,
  detail: Schema.String
}) {}

/** The response is not HTTP, or cannot be decoded. */
export class Malformed extends Schema.TaggedError<Malformed>()("Malformed", { detail: Schema.String }) {}

/** A status other than 2xx, although success is required. */
export class UnexpectedStatus extends Schema.TaggedError<UnexpectedStatus>()("UnexpectedStatus", {
  status: Schema.Int,
  /** The delay that the server requests (`Retry-After`). Milliseconds from now. */
  retryAfter: Schema.UndefinedOr(Schema.Number)
}) {}

/** All reasons. */
export const Reason = Schema.Union([
  InvalidUrl,
  Forbidden,
  NotResolved,
  Unreachable,
  InvalidCertificate,
  TimedOut,
  TooManyRedirects,
  BadRedirect,
  TooLarge,
  ConnectionLost,
  Malformed,
  UnexpectedStatus
])
/** One of {@link Reason}. */
export type Reason = typeof Reason.Type

const PHASES = {
  resolve: "its name could not be resolved",
  connect: "no connection could be made",
  headers: "no answer came",
  body: "no more of the body arrived",
  total: "it was not done"
} as const

/** Why the guard refuses an address. The operator's remedy depends on the client, so this text contains none. */
export const describeForbidden = ({ address, host, range }: Pick<Forbidden, "address" | "host" | "range">): string =>
  `${host === address ? address : `${host} is ${address}, which`} must not be reached: ${range}`

/** The reason, as the rest of a sentence that starts with the URL. */
export const describe = (reason: Reason): string => {
  switch (reason._tag) {
    case "InvalidUrl":
      return `it cannot be requested: ${reason.detail}`
    case "Forbidden":
      return `${describeForbidden(reason)}. The operator of this machine can allow the address`
    case "NotResolved":
      return `${reason.host} could not be resolved (${reason.detail})`
    case "Unreachable":
      return `no answer (${reason.detail})`
    case "InvalidCertificate":
      return `its certificate is not trusted (${reason.detail})`
    case "TimedOut":
      return `${PHASES[reason.phase]} within ${reason.limit} ms`
    case "TooManyRedirects":
      return `more than ${reason.limit} redirects`
    case "BadRedirect":
      return `its redirect is not followed: ${reason.detail}`
    case "TooLarge":
      return reason.announced === undefined
        ? `it has more than ${reason.limit} bytes, which is the limit`
        : `it has ${reason.announced} bytes, and the limit is ${reason.limit}`
    case "ConnectionLost":
      return `the connection was lost after ${reason.received} bytes of the body (${reason.detail})`
    case "Malformed":
      return `the response is invalid: ${reason.detail}`
    case "UnexpectedStatus":
      return `the server answered ${reason.status}`
  }
}

const TRANSIENT_STATUS = new Set([408, 425, 429])

/** Whether a retry of the same request may succeed. */
const isTransient = (reason: Reason): boolean => {
  switch (reason._tag) {
    case "Unreachable":
    case "ConnectionLost":
      return true
    case "NotResolved":
      return reason.temporary
    case "TimedOut":
      return reason.phase !== "total"
    case "UnexpectedStatus":
      return TRANSIENT_STATUS.has(reason.status) || (reason.status >= 500 && reason.status !== 501 && reason.status !== 505)
    case "InvalidUrl":
    case "Forbidden":
    case "InvalidCertificate":
    case "TooManyRedirects":
    case "BadRedirect":
    case "TooLarge":
    case "Malformed":
      return false
  }
}

/** A guarded request failed. */
export class GuardedHttpError extends Schema.TaggedError<GuardedHttpError>()("GuardedHttpError", {
  /** The URL of the hop that failed, without its query and its password. */
  url: Schema.String,
  reason: Reason
}) {
  override get message(): string {
    return `${this.url}: ${describe(this.reason)}.`
  }

  /** Whether a retry may succeed: after lost connections, timeouts, 408, 425, 429 and 5xx except 501 and 505. */
  get transient(): boolean {
    return isTransient(this.reason)
  }
}
