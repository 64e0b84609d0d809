/**
 * The URL of a request: parsed once, by the same parser that the connection uses, and logged without its secrets.
 */
import * as Result from "effect/Result"
import { InvalidUrl } from "./GuardedHttpError.ts"

/** The maximum length of a URL. Servers do not accept longer URLs either. Characters. */
const MAX_LENGTH = 8192

/** The maximum length of a path in a message. Characters. */
const MAX_SHOWN = 200

/** Parses a URL that can be requested: http or https, with a host without empty labels. */
export const parse = (text: string | URL): Result.Result<URL, InvalidUrl> => {
  const fail = (detail: string) => Result.fail(new InvalidUrl({ detail }))
  const given = typeof text === "string" ? text : text.href
  if (given.length > MAX_LENGTH) return fail(`it has ${given.length} characters, and the limit is ${MAX_LENGTH}`)
  const url = URL.parse(given)
  if (url === null) return fail("it is not a URL with a scheme and a host")
  if (url.protocol !== "http:" && url.protocol !== "https:") return fail(`${url.protocol} is neither http: nor https:`)
  if (url.port === "0") return fail("port 0 does not exist")
  if (url.hostname.startsWith(".") || url.hostname.includes("..")) return fail("its host has an empty label")
  return Result.succeed(url)
}

/** The URL for messages: without its user, password, query and fragment; a mark replaces the query. */
export const redactedUrl = (text: string | URL): string => {
  const url = typeof text === "string" ? URL.parse(text) : text
  if (url === null) return "a URL that cannot be read"
  // The rest of a `data:` or `file:` URL is content, or private.
  if (url.protocol !== "http:" && url.protocol !== "https:") return `a ${url.protocol} URL`
  const path = url.pathname.length > MAX_SHOWN ? `${url.pathname.slice(0, MAX_SHOWN)}...` : url.pathname
  return `${url.origin}${path}${url.search === "" ? "" : "?..."}`
}

/** The host in the form that the resolver and the guard accept: IPv6 without brackets, and no trailing dot. */
export const hostOf = (url: URL): string => {
  const { hostname } = url
  if (hostname.startsWith("[")) return hostname.slice(1, -1)
  return hostname.endsWith(".") ? hostname.slice(0, -1) : hostname
}

/** Whether the name means this machine, regardless of what a name server returns (RFC 6761, 6.3). */
export const isLocalhost = (host: string): boolean => host === "localhost" || host.endsWith(".localhost")

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** The user and password of the URL as the value of `Authorization`; undefined if it has none. */
export const basicAuthorization = ({ password, username }: URL): string | undefined =>
  username === "" && password === ""
    ? undefined
    : `Basic ${Buffer.from(`${decoded(username)}:${decoded(password)}`).toString("base64")}`
