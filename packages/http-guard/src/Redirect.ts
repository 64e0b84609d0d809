/**
 * The request that follows a redirect (RFC 9110, 15.4; Fetch, "HTTP-redirect fetch").
 *
 * | status | POST becomes | others become |
 * |---|---|---|
 * | 301, 302 | GET | stay |
 * | 303 | GET | GET, HEAD stays |
 * | 307, 308 | stays | stay |
 *
 * Only harmless headers are sent to another origin. A list of headers with secrets (`Authorization`, `Cookie`) would miss others such as
 * `X-Api-Key`, so this is a list of safe headers.
 */
import * as Result from "effect/Result"
import { BadRedirect } from "./GuardedHttpError.ts"
import { parse } from "./RequestUrl.ts"

/** One request of a redirect chain. */
export interface Hop {
  readonly url: URL
  readonly method: string
  /** Names in lower case. */
  readonly headers: { readonly [name: string]: string }
  readonly body: string | Uint8Array | undefined
}

const STATUSES = new Set([301, 302, 303, 307, 308])

/** Whether a response of this status is a redirect. */
export const isRedirect = (status: number): boolean => STATUSES.has(status)

const SAFE_ACROSS_ORIGINS = new Set(["accept", "accept-encoding", "accept-language", "content-type", "range", "user-agent"])
const OF_THE_BODY = new Set(["content-type", "content-encoding", "content-language", "content-location"])

/** Headers that the connection sets. If a caller could set them, they could break the framing or name a host other than the checked one. */
const OF_THE_CONNECTION = new Set([
  "connection",
  "content-length",
  "expect",
  "host",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade"
])

const keep = (headers: Hop["headers"], wanted: (name: string) => boolean): Hop["headers"] =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => wanted(name)))

/** A caller's headers: in lower case, without connection headers. */
export const requestHeaders = (headers: { readonly [name: string]: string }): Hop["headers"] =>
  keep(
    Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
    (name) => !OF_THE_CONNECTION.has(name)
  )

/** The request that follows from a redirect. Its target is not checked here, because the guard checks every request. */
export const next = (
  hop: Hop,
  status: number,
  location: string | undefined,
  allowDowngrade: boolean
): Result.Result<Hop, BadRedirect> => {
  const fail = (detail: string) => Result.fail(new BadRedirect({ detail }))
  if (location === undefined) return fail(`${status} without a Location`)
  const target = URL.parse(location, hop.url)
  if (target === null) return fail("its Location is not a URL")
  const checked = parse(target)
  if (Result.isFailure(checked)) return fail(checked.failure.detail)
  const url = checked.success
  if (hop.url.protocol === "https:" && url.protocol === "http:" && !allowDowngrade) {
    return fail("it leads from https to http, where anyone on the network path can read and change it")
  }
  const method = hop.method === "POST" && status <= 302
    ? "GET"
    : status === 303 && hop.method !== "HEAD"
    ? "GET"
    : hop.method
  const withoutBody = method !== hop.method
  const sameOrigin = url.origin === hop.url.origin
  return Result.succeed({
    url,
    method,
    headers: keep(
      hop.headers,
      (name) => (sameOrigin || SAFE_ACROSS_ORIGINS.has(name)) && !(withoutBody && OF_THE_BODY.has(name))
    ),
    body: withoutBody ? undefined : hop.body
  })
}
