/**
 * A server's audit log: stores what `AuditMiddleware` records, and removes old entries.
 *
 * | setting | default | meaning and trade-off |
 * |---|---|---|
 * | `entries` | 20000 | stored entries of each kind (`AuditKind`). An entry takes about 200 bytes. A filtered list reads all entries, which takes 5
 * ms for 60000 entries in SQLite |
 * | `keep` | 400 days | older entries are removed. The default covers a year, plus time for a yearly review |
 *
 * Each entry is a separate write, and any key can cause entries for refused and failed operations. The number of such entries per key is
 * therefore limited, and the platform's log says how many were omitted.
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
import * as LeakyBucket from "../auth/LeakyBucket.ts"

/** The limits of the audit log. */
export interface AuditSettings {
  readonly entries: number
  readonly keep: Duration.Duration
}

/** The default limits. */
export const defaults: AuditSettings = { entries: 20_000, keep: Duration.days(400) }

/** The audit log. By default, a server records nothing. */
export const AuditLog = Context.Reference<{
  /**
   * Stores an entry. A store error is only logged, with the entry, because the operation has already taken effect and an error response would
   * be wrong.
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

/** The limit on recorded refused and failed operations per key: 300 at once, then one every 12 seconds. */
const UNSUCCESSFUL: LeakyBucket.Rate = { limit: 300, perMs: 3_600_000 }

/** The refused and failed operations of a key. */
interface Unsuccessful {
  readonly name: string
  readonly meter: LeakyBucket.Meter
  /** The number of operations that were not recorded since this was last logged. */
  readonly omitted: number
}

/** An audit log that is kept in the `AuditStore`. */
export const layer = ({ entries, keep }: AuditSettings = defaults): Layer.Layer<never, never, AuditStore> =>
  Layer.effect(
    AuditLog,
    Effect.gen(function*() {
      const store = yield* AuditStore
      let untrimmed = 0
      const unsuccessful = new Map<string, Unsuccessful>()

      /** Whether to record a refused or failed operation. */
      const isAdmitted = Effect.fnUntraced(function*({ at, key, name }: NewAuditEntry) {
        const known = unsuccessful.get(key)
        const { admitted, meter } = LeakyBucket.consume(UNSUCCESSFUL, known?.meter, at)
        const omitted = (known?.omitted ?? 0) + (admitted ? 0 : 1)
        unsuccessful.set(key, { name, meter, omitted })
        if (!admitted && omitted === 1) {
          yield* Effect.logWarning(
            `The key "${name}" (${key}) causes many refused or failed operations. The audit records ${UNSUCCESSFUL.limit} of them in an hour.`
          )
        }
        return admitted
      })

      const reportOmitted = Effect.gen(function*() {
        const now = yield* Clock.currentTimeMillis
        for (const [key, { meter, name, omitted }] of unsuccessful) {
          if (LeakyBucket.peek(UNSUCCESSFUL, meter, now).resetMs === 0) unsuccessful.delete(key)
          else unsuccessful.set(key, { name, meter, omitted: 0 })
          if (omitted > 0) {
            yield* Effect.logWarning(`The audit omitted ${omitted} refused or failed operations of the key "${name}" (${key}).`)
          }
        }
      })

      const trim = Effect.gen(function*() {
        untrimmed = 0
        const before = (yield* Clock.currentTimeMillis) - Duration.toMillis(keep)
        while ((yield* store.trim({ before, entries }, TRIM_LIMIT)) === TRIM_LIMIT) yield* Effect.yieldNow
      }).pipe(
        Effect.catchCause((cause) =>
          Effect.logError("Old entries of the audit cannot be removed; retrying within an hour.", cause)
        )
      )
      yield* Effect.andThen(trim, reportOmitted).pipe(Effect.repeat(Schedule.spaced(INTERVAL)), Effect.forkScoped)

      return AuditLog.of({
        record: Effect.fnUntraced(
          function*(kind, entry) {
            if (kind === "unsuccessful" && !(yield* isAdmitted(entry))) return
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
