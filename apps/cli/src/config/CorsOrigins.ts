/**
 * Parses the origins in `STINT_CORS_ORIGINS`.
 */
import type { AllowedOrigins } from "@stint/server/Cors"
import * as Schema from "effect/Schema"
import { commaSeparated } from "./Setting.ts"

/** Parses a string into an origin in the form that browsers send; undefined when the string is not exactly one origin. */
const originOf = (text: string): string | undefined => {
  if (!URL.canParse(text)) return undefined
  const { hash, host, origin, pathname, search, username } = new URL(text)
  if (host === "" || hash !== "" || search !== "" || username !== "" || !/^\/?$/.test(pathname)) return undefined
  // For browser extensions, `URL.origin` is "null", but browsers send the scheme and the host.
  return origin === "null" ? text.replace(/\/$/, "") : origin
}

/** `*`, or comma-separated origins. A trailing slash and uppercase letters are accepted. */
export const CorsOrigins = Schema.String.check(
  Schema.makeFilter((text) =>
    text.trim() === "*" || commaSeparated(text).every((one) => originOf(one) !== undefined) || "comma-separated origins"
  )
)

/** The origins that a setting allows. */
export const parseOrigins = (text: string): AllowedOrigins =>
  text.trim() === "*" ? "*" : [...new Set(commaSeparated(text).flatMap((one) => originOf(one) ?? []))]
