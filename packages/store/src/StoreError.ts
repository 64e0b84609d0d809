/**
 * The error of every store.
 */
import * as Schema from "effect/Schema"

/**
 * The store cannot be read or written: for example, the disk reports errors or the database is unreachable. The operation stored nothing,
 * or its response was lost.
 */
export class StoreUnavailable extends Schema.TaggedError<StoreUnavailable>()("StoreUnavailable", {
  operation: Schema.String,
  cause: Schema.Defect(),
  /** The store logs the beginning and the end of the outage, so its callers need not log each failure. Default: false. */
  logged: Schema.optionalKey(Schema.Boolean)
}) {}

/**
 * The store has too little free space for `operation`, which stored nothing. A store rejects new jobs before the space is used up, so that
 * changes to stored jobs can continue. The store logs the beginning and the end of this state.
 */
export class StoreFull extends Schema.TaggedError<StoreFull>()("StoreFull", {
  operation: Schema.String
}) {}

/**
 * The store lost its data while it ran: its file was deleted, replaced or damaged. Writes fail, because nothing would be durable. Only the
 * operator can repair it. The store logs the beginning and the end of this state.
 */
export class StoreBroken extends Schema.TaggedError<StoreBroken>()("StoreBroken", {
  operation: Schema.String,
  problem: Schema.Literals(["missing", "replaced", "damaged"])
}) {}

/**
 * The object store of large payloads cannot be read or written. For "put", the operation stored nothing. For "get", the payload cannot be
 * read at the moment.
 */
export class PayloadUnavailable extends Schema.TaggedError<PayloadUnavailable>()("PayloadUnavailable", {
  operation: Schema.Literals(["put", "get"]),
  problem: Schema.String,
  /** The payload no longer exists, so it can never be read. Default: it may be readable later. */
  isLost: Schema.optionalKey(Schema.Literal(true))
}) {}

/** The memory budget has no room for a large payload of `bytes` bytes at the moment, because other payloads are in flight. */
export class PayloadMemoryFull extends Schema.TaggedError<PayloadMemoryFull>()("PayloadMemoryFull", {
  bytes: Schema.Int
}) {}

/**
 * A store failed. The same operation may succeed later: after `StoreFull` when space becomes available, after `StoreBroken` when the operator
 * has repaired the store.
 */
export class StoreError extends Schema.TaggedError<StoreError>()("StoreError", {
  reason: Schema.Union([StoreUnavailable, StoreFull, StoreBroken, PayloadUnavailable, PayloadMemoryFull])
}) {
  override get message(): string {
    const reason = this.reason
    switch (reason._tag) {
      case "StoreUnavailable":
        return `the job store failed in ${reason.operation}: ${
          reason.cause instanceof Error ? reason.cause.message : String(reason.cause)
        }`
      case "StoreFull":
        return `the job store has too little free space for ${reason.operation}`
      case "StoreBroken":
        return `the job store failed in ${reason.operation}: its file is ${reason.problem}`
      case "PayloadUnavailable":
        return `the object store failed in ${reason.operation}: ${reason.problem}`
      case "PayloadMemoryFull":
        return `there is no room in memory for a payload of ${reason.bytes} bytes`
    }
  }
}
