/**
 * Origins of web pages, as an operator writes them.
 */
import type { AllowedOrigins } from "@stint/server/Cors"
import * as Schema from "effect/Schema"

/** The origin in a text, as browsers send it; undefined where there is more than an origin, or none. */
const originOf = (text: string): string | undefined => {
  if (!URL.canParse(text)) return undefined
  const { hash, host, origin, pathname, search, username } = new URL(text)
  if (host === "" || hash !== "" || search !== "" || username !== "" || !/^\/?$/.test(pathname)) return undefined
  // Of an extension's page `origin` says nothing; browsers send its address.
  return origin === "null" ? text.replace(/\/$/, "") : origin
}

const wordsOf = (text: string): ReadonlyArray<string> => text.split(",").map((one) => one.trim()).filter((one) => one !== "")

/** `*`, or origins by commas. One that is written with a slash at its end, or in capitals, is the same. */
export const CorsOrigins = Schema.String.check(
  Schema.makeFilter((text) =>
    text.trim() === "*" || wordsOf(text).every((one) => originOf(one) !== undefined) || "origins by commas"
  )
)

/** What such a text allows. */
export const parseOrigins = (text: string): AllowedOrigins =>
  text.trim() === "*" ? "*" : [...new Set(wordsOf(text).flatMap((one) => originOf(one) ?? []))]
