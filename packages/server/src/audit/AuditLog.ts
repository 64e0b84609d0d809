/**
 * The audit of a server: stores what `AuditMiddleware` records, and removes old entries.
 *
 * | setting | default | meaning and trade-off |
 * |---|---|---|
 * | `entries` | 20000 | stored entries of each kind (`AuditKind`). An entry takes about 200 bytes. A filtered list reads all of them, which takes 5 ms for 60000 entries in SQLite |
 * | `keep` | 400 days | older entries are removed. The default covers a year and the time of a yearly review |
 */
import type { AuditEntry } from "@stint/contract/Audit"
import type { AuditKind, AuditQuery, NewAuditEntry } from "@stint/store/AuditStore"
import { AuditStore } from "@stint/store/AuditStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"

/** The bounds of the audit. */
export interface AuditSettings {
  readonly entries: number
  readonly keep: Duration.Duration
}

/** The default bounds. */
export const defaults: AuditSettings = { entries: 20_000, keep: Duration.days(400) }

/** The audit. Default: a server that records nothing. */
export const AuditLog = Context.Reference<{
  /**
   * Stores an entry. An error of the store is only logged, with the entry: the operation has already had its effect, so that an error
   * response would be wrong.
   */
  readonly record: (kind: AuditKind, entry: NewAuditEntry) => Effect.Effect<void>
  /** Newest first. */
  readonly list: (query: AuditQuery) => Effect.Effect<ReadonlyArray<AuditEntry>, StoreError>
}>("@stint/server/AuditLog", {
  defaultValue: () => ({ record: () => Effect.void, list: () => Effect.succeed([]) })
})

const INTERVAL = "1 hour"

/** The maximum number of entries that one write removes. */
const TRIM_LIMIT = 500

/** Old entries are also removed after this number of new ones, so that a flood of refused operations cannot fill the disk within the interval. */
const TRIM_EVERY = 1_000

/** The audit in the `AuditStore`. */
export const layer = ({ entries, keep }: AuditSettings = defaults): Layer.Layer<never, never, AuditStore> =>
  Layer.effect(
    AuditLog,
    Effect.gen(function*() {
      const store = yield* AuditStore
      let untrimmed = 0

      const trim = Effect.gen(function*() {
        untrimmed = 0
        const before = (yield* Clock.currentTimeMillis) - Duration.toMillis(keep)
        while ((yield* store.trim({ before, entries }, TRIM_LIMIT)) === TRIM_LIMIT) yield* Effect.yieldNow
      }).pipe(
        Effect.catchCause((cause) =>
          Effect.logError("Old entries of the audit cannot be removed; retrying within an hour.", cause)
        )
      )
      yield* trim.pipe(Effect.repeat(Schedule.spaced(INTERVAL)), Effect.forkScoped)

      return AuditLog.of({
        record: Effect.fnUntraced(
          function*(kind, entry) {
            yield* store.append(kind, entry)
            untrimmed += 1
            if (untrimmed >= TRIM_EVERY) yield* trim
          },
          (effect, _, entry) =>
            Effect.catchCause(
              effect,
              (cause) => Effect.logError(`The audit has no entry for this operation: ${JSON.stringify(entry)}`, cause)
            )
        ),
        list: store.list
      })
    })
  )
