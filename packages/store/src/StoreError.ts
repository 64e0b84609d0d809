/**
 * The error of every store.
 */
import * as Schema from "effect/Schema"

/**
 * The store cannot be read or written: for example, the disk is full, the file is missing or the database is unreachable. The operation
 * stored nothing.
 */
export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("StoreUnavailable", {
  operation: Schema.String,
  cause: Schema.Defect()
}) {}

/**
 * The object store of large payloads cannot be read or written. For "put", the operation stored nothing. For "get", the payload cannot be
 * read at the moment.
 */
export class PayloadUnavailable extends Schema.TaggedError<PayloadUnavailable>()("PayloadUnavailable", {
  operation: Schema.Literals(["put", "get"]),
  problem: Schema.String
}) {}

/** The memory budget has no room for a large payload of `bytes` bytes at the moment, because other payloads are in flight. */
export class PayloadMemoryFull extends Schema.TaggedError<PayloadMemoryFull>()("PayloadMemoryFull", {
  bytes: Schema.Int
}) {}

/** A store failed. Each reason is temporary: the same operation may succeed later. */
export class StoreError extends Schema.TaggedError<StoreError>()("StoreError", {
  reason: Schema.Union([StoreUnavailable, PayloadUnavailable, PayloadMemoryFull])
}) {
  override get message(): string {
    const reason = this.reason
    switch (reason._tag) {
      case "StoreUnavailable":
        return `the job store failed in ${reason.operation}: ${
          reason.cause instanceof Error ? reason.cause.message : String(reason.cause)
        }`
      case "PayloadUnavailable":
        return `the object store failed in ${reason.operation}: ${reason.problem}`
      case "PayloadMemoryFull":
        return `there is no room in memory for a payload of ${reason.bytes} bytes`
    }
  }
}
