/**
 * A key store in two levels: rows that a backend keeps, and all of them in this process's memory in front.
 *
 * ```
 *   get            <-- memory, always
 *   put, update, remove --> rows --kept--> memory
 *   every `refresh`:        rows --read--> memory      what other processes have changed
 * ```
 *
 * Servers that share a database obey a revocation that was made by another of them when they have read it: after `refresh` at most. While
 * the rows cannot be read, keys are what they were.
 *
 * One change or refresh happens at a time, so that an old reading never undoes a change that was made meanwhile.
 */
import type { KeyId } from "@stint/contract/AccessKey"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { StoreError } from "../StoreError.ts"
import { byAge, type KeyRecord, KeyStore } from "./KeyStore.ts"

/** Keys as a backend keeps them. */
export interface KeyRows {
  /** All, in any order. */
  readonly all: Effect.Effect<ReadonlyArray<KeyRecord>, StoreError>
  /** Keeps a new key, or replaces one. */
  readonly put: (key: KeyRecord) => Effect.Effect<void, StoreError>
  /** Changes a key in one atomic step, over all processes; undefined when there is none. */
  readonly update: (id: KeyId, change: (key: KeyRecord) => KeyRecord) => Effect.Effect<KeyRecord | undefined, StoreError>
  /** True when it was there. */
  readonly remove: (id: KeyId) => Effect.Effect<boolean, StoreError>
}

/** How often rows that several processes share are read: how long a revocation may take to reach all of them. Less costs more reading. */
export const SHARED_REFRESH: Duration.Input = "5 seconds"

/** Settings of a cache. */
export interface Options {
  /** Default: never, for rows that no other process can change. Shared ones: {@link SHARED_REFRESH}. */
  readonly refresh?: Duration.Input
}

/** A key store over rows. Reads all of them first; refreshes until the scope's end. */
export const make = Effect.fnUntraced(function*(
  rows: KeyRows,
  { refresh }: Options = {}
): Effect.fn.Return<KeyStore["Service"], StoreError, Scope.Scope> {
  const load = Effect.map(rows.all, (all) => new Map<string, KeyRecord>(all.map((key) => [key.id, key])))
  let keys = yield* load

  const lock = yield* Semaphore.make(1)
  const exclusively = <A>(effect: Effect.Effect<A, StoreError>) => Effect.uninterruptible(lock.withPermits(1)(effect))

  const refreshKeys = exclusively(Effect.map(load, (read) => {
    keys = read
  })).pipe(
    Effect.catch((error) =>
      Effect.logWarning(
        `The keys cannot be read again: ${error.message}. Those that are known stay as they are; others are unknown.`
      )
    )
  )
  if (refresh !== undefined) {
    yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(refresh), refreshKeys)))
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
