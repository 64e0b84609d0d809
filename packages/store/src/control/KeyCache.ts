/**
 * A key store over the rows of a backend, with a cache of all keys in memory.
 *
 * ```
 *   get, list           <-- memory
 *   put, update, remove --> rows --committed--> memory
 *   every `refresh`:        rows --read-------> memory      changes by other processes, unless the rows are known to be the same
 * ```
 *
 * A lookup therefore costs 2.3 µs of CPU time, whether there is 1 key or 100,000, and needs no query (docs/decisions/0009-keys-at-rest.md).
 *
 * When several servers share a database, each server sees another server's revocations after at most {@link SHARED_REFRESH}. While the rows cannot
 * be read, the cache keeps its keys.
 *
 * Changes and refreshes run one at a time, so that an old read never overwrites a newer change.
 */
import type { KeyId } from "@stint/contract/AccessKey"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as AlignedSleep from "../AlignedSleep.ts"
import type { StoreError } from "../StoreError.ts"
import { byAge, type KeyRecord, KeyStore } from "./KeyStore.ts"

/** The rows of a backend. */
export interface KeyRows {
  /** All keys, in any order. */
  readonly all: Effect.Effect<ReadonlyArray<KeyRecord>, StoreError>
  /** Whether the rows need not be read again. Default: never. */
  readonly isCurrent?: () => boolean
  /** Creates or replaces a key. */
  readonly put: (key: KeyRecord) => Effect.Effect<void, StoreError>
  /** Changes a key in one step that is atomic across processes; undefined for an unknown key. */
  readonly update: (id: KeyId, change: (key: KeyRecord) => KeyRecord) => Effect.Effect<KeyRecord | undefined, StoreError>
  /** Returns whether the key existed. */
  readonly remove: (id: KeyId) => Effect.Effect<boolean, StoreError>
}

/** The longest time until a change of shared rows, such as a revocation, reaches all servers. */
export const SHARED_REFRESH: Duration.Input = "5 seconds"

/** Settings of the cache. */
export interface Options {
  /** Default: the cache is never refreshed, which suits rows that only this process changes. Shared rows are checked so often that {@link SHARED_REFRESH} holds. */
  readonly refresh?: Duration.Input
}

/** A key store over rows. Reads all rows first, then refreshes until the scope closes. */
export const make = Effect.fnUntraced(function*(
  rows: KeyRows,
  { refresh }: Options = {}
): Effect.fn.Return<KeyStore["Service"], StoreError, Scope.Scope> {
  const load = Effect.map(rows.all, (all) => new Map<string, KeyRecord>(all.map((key) => [key.id, key])))
  let keys = yield* load

  const lock = yield* Semaphore.make(1)
  const exclusively = <A>(effect: Effect.Effect<A, StoreError>) => Effect.uninterruptible(lock.withPermits(1)(effect))

  const refreshKeys = exclusively(Effect.suspend(() =>
    rows.isCurrent?.() === true ? Effect.void : Effect.map(load, (read) => {
      keys = read
    })
  )).pipe(
    Effect.catch((error) =>
      Effect.logWarning(
        `The keys cannot be refreshed: ${error.message}. The server continues with the keys it has read before.`
      )
    )
  )
  if (refresh !== undefined) {
    yield* Effect.forkScoped(Effect.forever(Effect.andThen(AlignedSleep.sleep(refresh), refreshKeys)))
  }

  const known = (id: string, key: KeyRecord | undefined) =>
    Effect.sync(() => {
      if (key === undefined) keys.delete(id)
      else keys.set(id, key)
    })

  return KeyStore.of({
    get: (id) => Effect.sync(() => keys.get(id)),
    list: Effect.sync(() => [...keys.values()].sort(byAge)),
    put: (key) => exclusively(Effect.andThen(rows.put(key), known(key.id, key))),
    update: (id, change) => exclusively(Effect.tap(rows.update(id, change), (key) => known(id, key))),
    remove: (id) => exclusively(Effect.tap(rows.remove(id), () => known(id, undefined)))
  })
})
