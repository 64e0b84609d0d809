/**
 * The address of a trace viewer.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_TRACE_URL` | none: no links | the address of a trace, with `{traceId}` in place of its id; the console and `stint trace` link to it |
 */
import * as Config from "effect/Config"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { CliFailure } from "../CliFailure.ts"
import { setting } from "./Setting.ts"

/** Stands for the id of the trace. */
const PLACEHOLDER = "{traceId}"

const isWebAddress = (text: string): boolean => {
  const url = URL.parse(text.replaceAll(PLACEHOLDER, "0"))
  return url !== null && (url.protocol === "http:" || url.protocol === "https:")
}

const TraceUrl = Schema.String.check(
  Schema.makeFilter((text) =>
    (text.includes(PLACEHOLDER) && isWebAddress(text)) || `an http or https address with ${PLACEHOLDER}`
  )
)

/** Reads the address. Fails if it is invalid. */
export const load: Effect.Effect<Option.Option<string>, CliFailure> = setting(
  "STINT_TRACE_URL",
  `an http or https address with ${PLACEHOLDER}, for example http://localhost:16686/trace/${PLACEHOLDER}`,
  Config.option(Config.schema(TraceUrl, "STINT_TRACE_URL"))
)

/** The address of a trace: 32 hexadecimal digits. */
export const urlOf = (template: string, traceId: string): string => template.replaceAll(PLACEHOLDER, traceId)
