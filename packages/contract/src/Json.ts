/**
 * JSON values and JSON text.
 */
import * as Schema from "effect/Schema"

/** Any JSON value. */
export type Json = Schema.Json

/**
 * A JSON document as text.
 *
 * The platform does not interpret payloads. The server parses each payload once, to validate it, and passes its text on to the store, the
 * worker and the caller (docs/decisions/0001-payloads-stay-text.md).
 */
export const JsonText = Schema.String.pipe(Schema.brand("JsonText"))
export type JsonText = typeof JsonText.Type

/** `null`, as text. */
export const jsonNull: JsonText = JsonText.make("null")

/** Serializes a value. `undefined`, functions and symbols become `null`. */
export const toJsonText = (value: unknown): JsonText => JsonText.make(JSON.stringify(value) ?? "null")
