/**
 * The URL of a request: read once, by the one parser whose reading is then connected to, and shown without its secrets.
 */
import * as Result from "effect/Result"
import { InvalidUrl } from "./GuardedHttpError.ts"

/** Longer ones are refused; servers do not take them either. Characters. */
const MAX_LENGTH = 8192

/** How much of a path is shown. Characters. */
const MAX_SHOWN = 200

/** Reads a URL that can be requested: http or https, and a host without empty parts. */
export const parse = (text: string | URL): Result.Result<URL, InvalidUrl> => {
  const fail = (detail: string) => Result.fail(new InvalidUrl({ detail }))
  const given = typeof text === "string" ? text : text.href
  if (given.length > MAX_LENGTH) return fail(`it has ${given.length} characters, and ${MAX_LENGTH} are accepted`)
  const url = URL.parse(given)
  if (url === null) return fail("it is no URL with a scheme and a host")
  if (url.protocol !== "http:" && url.protocol !== "https:") return fail(`${url.protocol} is neither http: nor https:`)
  if (url.port === "0") return fail("there is no port 0")
  if (url.hostname.startsWith(".") || url.hostname.includes("..")) return fail("its host has an empty part")
  return Result.succeed(url)
}

/** The URL for people: without its user, password, query and fragment, which are replaced by a mark. */
export const redactedUrl = (text: string | URL): string => {
  const url = typeof text === "string" ? URL.parse(text) : text
  if (url === null) return "a URL that cannot be read"
  // What stands in a `data:` or `file:` URL is content, or nobody's business.
  if (url.protocol !== "http:" && url.protocol !== "https:") return `a ${url.protocol} URL`
  const path = url.pathname.length > MAX_SHOWN ? `${url.pathname.slice(0, MAX_SHOWN)}...` : url.pathname
  return `${url.origin}${path}${url.search === "" ? "" : "?..."}`
}

/** The host as the resolver and the guard take it: IPv6 without brackets, no dot at the end. */
export const hostOf = (url: URL): string => {
  const { hostname } = url
  if (hostname.startsWith("[")) return hostname.slice(1, -1)
  return hostname.endsWith(".") ? hostname.slice(0, -1) : hostname
}

/** Whether the name means this machine whatever a name server says (RFC 6761, 6.3). */
export const isLocalhost = (host: string): boolean => host === "localhost" || host.endsWith(".localhost")

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** The user and password of the URL as a header's value; undefined when it has none. */
export const basicAuthorization = ({ password, username }: URL): string | undefined =>
  username === "" && password === ""
    ? undefined
    : `Basic ${Buffer.from(`${decoded(username)}:${decoded(password)}`).toString("base64")}`
