/**
 * The store of bulk operations, in the same database as the jobs that they change.
 *
 * ```
 *   put                                             version n --> version n + 1
 *   JobStore.apply with an event that has `bulk`    --same commit--> job, version n --> version n + 1
 *   JobStore.insert with a key that has `bulk`      --same commit--> new job, version n --> version n + 1
 * ```
 *
 * A change is written only if the stored operation has the preceding version. So a job is changed once, even if a step is repeated after a crash or
 * tried by several servers. The repetition is rejected, and the server reads the operation again.
 */
import { BulkAction, BulkState } from "@stint/contract/Bulk"
import { KeyLimits } from "@stint/contract/Quota"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { StoreError } from "../StoreError.ts"

/** A stored bulk operation. Times are milliseconds since 1970. */
export const BulkRecord = Schema.Struct({
  id: Schema.String,
  /** Starts at 1. Every change increments it. */
  version: Schema.Int,
  action: BulkAction,
  /** The query (JobSearch.ts). */
  query: Schema.String,
  state: BulkState,
  /** Only jobs submitted before this time are changed. */
  createdAt: Schema.Int,
  startsAt: Schema.Int,
  endedAt: Schema.NullOr(Schema.Int),
  /** The key that created it: its id, its name, the endpoints that it permitted, and its quotas. */
  by: Schema.Struct({
    key: Schema.String,
    name: Schema.String,
    endpoints: Schema.Union([Schema.Literal("all"), Schema.Array(Schema.String)]),
    limits: Schema.optionalKey(KeyLimits)
  }),
  matched: Schema.Struct({ count: Schema.Int, more: Schema.Boolean }),
  done: Schema.Int,
  skipped: Schema.Struct({ changed: Schema.Int, missing: Schema.Int, endpoint: Schema.Int }),
  failed: Schema.Int,
  problems: Schema.Array(Schema.Struct({ endpoint: Schema.String, job: Schema.String, reason: Schema.String })),
  /** The last processed job; null: none yet. */
  cursor: Schema.NullOr(Schema.Struct({ createdAt: Schema.Int, id: Schema.String })),
  /** The server that holds the lease of the operation, and when the lease expires. */
  lease: Schema.NullOr(Schema.Struct({ node: Schema.String, until: Schema.Int }))
})
export type BulkRecord = typeof BulkRecord.Type

/** The number of operations that are kept. Older ones are removed when they have ended. */
export const BULK_KEPT = 1_000

/** The maximum number of operations in a list. */
export const BULK_LIST_LIMIT = 200

/** Whether a change may replace the stored operation. */
export const bulkFollows = (
  after: Pick<BulkRecord, "version">,
  stored: Pick<BulkRecord, "version"> | undefined
): boolean => after.version === (stored === undefined ? 1 : stored.version + 1)

/** Whether an operation has ended. */
export const isBulkEnded = ({ state }: Pick<BulkRecord, "state">): boolean => state === "done" || state === "cancelled"

export class BulkStore extends Context.Service<BulkStore, {
  /** Undefined for an unknown operation. */
  readonly get: (id: string) => Effect.Effect<BulkRecord | undefined, StoreError>

  /** The newest operations, newest first, at most {@link BULK_LIST_LIMIT}. */
  readonly list: Effect.Effect<ReadonlyArray<BulkRecord>, StoreError>

  /** The operations that have not ended, oldest first. */
  readonly unended: Effect.Effect<ReadonlyArray<BulkRecord>, StoreError>

  /**
   * Stores a change. Returns false, and changes nothing, unless the stored operation has the preceding version. The first version of an operation
   * also removes the oldest ended ones beyond {@link BULK_KEPT}.
   */
  readonly put: (after: BulkRecord) => Effect.Effect<boolean, StoreError>
}>()("@stint/store/BulkStore") {}
