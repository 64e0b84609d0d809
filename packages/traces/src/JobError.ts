/**
 * The type and the message of a failed job's error.
 */
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/** OpenTelemetry's name for an error without a type. */
export const OTHER = "_OTHER"

/** The length of the message in a span, in characters. */
const MESSAGE_LENGTH = 2_000

const decodeException = Schema.decodeUnknownOption(
  Schema.fromJsonString(Schema.Struct({ error_type: Schema.String, error_message: Schema.String }))
)

/** The error of a span. */
export interface SpanError {
  readonly type: string
  readonly message: string
}

/** Reads an exception report (docs/spec/handler.md#exceptions). Any other text is the message itself. */
export const jobError = (error: string): SpanError =>
  Option.match(error.startsWith("{") ? decodeException(error) : Option.none(), {
    onSome: ({ error_message, error_type }) => ({ type: error_type, message: error_message.slice(0, MESSAGE_LENGTH) }),
    onNone: () => ({ type: OTHER, message: error.slice(0, MESSAGE_LENGTH) })
  })
