/**
 * JSON values, and JSON that stays text.
 */
import * as Schema from "effect/Schema"

/** Any JSON value: what a caller sends as `input` and what a handler gives back. */
export type Json = Schema.Json

/**
 * A JSON document as text.
 *
 * Payloads cross the platform without being looked into, so they are parsed once at the edge, to be sure that they are JSON, and
 * travel as text from there: into the store, out to the worker and back to the caller.
 */
export const JsonText = Schema.String.pipe(Schema.brand("JsonText"))
export type JsonText = typeof JsonText.Type

/** `null`, as text. */
export const jsonNull: JsonText = JsonText.make("null")

/** The text of a JSON value. `undefined`, functions and symbols do not exist in JSON; alone they become `null`. */
export const toJsonText = (value: unknown): JsonText => JsonText.make(JSON.stringify(value) ?? "null")
