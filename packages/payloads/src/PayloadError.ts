/**
 * What can go wrong with a payload store, as one error with a reason.
 */
import * as Schema from "effect/Schema"

/** The store does not answer, is full or refuses: it may work again. `problem` says what it said, without any secret. */
export class Unavailable extends Schema.TaggedError<Unavailable>()("Unavailable", {
  operation: Schema.Literals(["put", "get", "remove", "list", "open"]),
  problem: Schema.String
}) {}

/** The store works, and has no such object. */
export class Missing extends Schema.TaggedError<Missing>()("Missing", {
  key: Schema.String
}) {}

/** The object is there, and is not what was put. */
export class Damaged extends Schema.TaggedError<Damaged>()("Damaged", {
  key: Schema.String,
  problem: Schema.String
}) {}

/** Why a payload could not be kept, had or removed. `store` is the store in words. */
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
        return `the object ${reason.key} of ${store} is not what was put there: ${reason.problem}`
    }
  }
}
