/**
 * The error type that all payload stores return.
 */
import * as Schema from "effect/Schema"

/**
 * The store does not respond, is full, or rejects the operation; a retry may succeed. `problem` is the store's error text, without
 * secrets.
 */
export class Unavailable extends Schema.TaggedError<Unavailable>()("Unavailable", {
  operation: Schema.Literals(["put", "get", "remove", "list", "open"]),
  problem: Schema.String
}) {}

/** The store works, but does not have the object. */
export class Missing extends Schema.TaggedError<Missing>()("Missing", {
  key: Schema.String
}) {}

/** The object exists, but differs from the bytes that were put. */
export class Damaged extends Schema.TaggedError<Damaged>()("Damaged", {
  key: Schema.String,
  problem: Schema.String
}) {}

/** A payload store operation failed. `store` is its description. */
export class PayloadError extends Schema.TaggedError<PayloadError>()("PayloadError", {
  store: Schema.String,
  reason: Schema.Union([Unavailable, Missing, Damaged])
}) {
  override get message(): string {
    const { reason, store } = this
    switch (reason._tag) {
      case "Unavailable":
        return `${store} failed in ${reason.operation}: ${reason.problem}`
      case "Missing":
        return `${store} has no object ${reason.key}`
      case "Damaged":
        return `the object ${reason.key} of ${store} differs from the bytes that were put: ${reason.problem}`
    }
  }
}
