/**
 * Fault injection for a payload store: makes the wrapped store fail, hang, corrupt or lose objects.
 */
import { Missing, PayloadError, Unavailable } from "@stint/payloads/PayloadError"
import { type PayloadKey, PayloadStore } from "@stint/payloads/PayloadStore"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"

/** The operations of a store. */
export type Operation = "put" | "get" | "remove" | "list"

export class PayloadFaults extends Context.Service<PayloadFaults, {
  /** The next `count` calls of these operations fail as if the store were unavailable. */
  readonly failNext: (operation: Operation, count: number) => Effect.Effect<void>
  /** Further operations reach the store, but return only after {@link thaw}. */
  readonly freeze: Effect.Effect<void>
  readonly thaw: Effect.Effect<void>
  /** Corrupts the first byte of every further read. */
  readonly corrupt: Effect.Effect<void>
  /** Further reads find no object. */
  readonly lose: Effect.Effect<void>
  /** Ends corruption and loss. */
  readonly mend: Effect.Effect<void>
  /** All calls so far, in order. */
  readonly calls: () => ReadonlyArray<{ readonly operation: Operation; readonly key: string }>
}>()("@stint/payloads-testing/PayloadFaults") {}

/** Wraps a store. */
export const layer = <E, R>(store: Layer.Layer<PayloadStore, E, R>): Layer.Layer<PayloadStore | PayloadFaults, E, R> =>
  Layer.effectContext(Effect.gen(function*() {
    const inner = yield* PayloadStore
    const failures: Record<Operation, number> = { put: 0, get: 0, remove: 0, list: 0 }
    const calls: Array<{ readonly operation: Operation; readonly key: string }> = []
    let frozen: Deferred.Deferred<void> | undefined
    let reading: "well" | "corrupt" | "lost" = "well"

    const gate = (operation: Operation, key: string): Effect.Effect<void, PayloadError> =>
      Effect.suspend(() => {
        calls.push({ operation, key })
        if (failures[operation] === 0) return Effect.void
        failures[operation] -= 1
        return new PayloadError({
          store: inner.description,
          reason: new Unavailable({ operation, problem: "the connection was refused" })
        })
      })

    const slow = <A>(effect: Effect.Effect<A, PayloadError>) =>
      Effect.tap(effect, () => frozen === undefined ? Effect.void : Deferred.await(frozen))

    const spoiled = (key: PayloadKey, bytes: Uint8Array): Effect.Effect<Uint8Array, PayloadError> => {
      switch (reading) {
        case "well":
          return Effect.succeed(bytes)
        case "corrupt":
          return Effect.succeed(bytes.map((byte, index) => index === 0 ? byte ^ 1 : byte))
        case "lost":
          return new PayloadError({ store: inner.description, reason: new Missing({ key }) })
      }
    }

    return Context.make(
      PayloadStore,
      PayloadStore.of({
        description: inner.description,
        put: (key, bytes) => Effect.andThen(gate("put", key), slow(inner.put(key, bytes))),
        get: (key, size) =>
          Effect.andThen(gate("get", key), Effect.flatMap(slow(inner.get(key, size)), (bytes) => spoiled(key, bytes))),
        remove: (key) => Effect.andThen(gate("remove", key), slow(inner.remove(key))),
        list: (path) => Stream.unwrap(Effect.as(gate("list", path), inner.list(path)))
      })
    ).pipe(Context.add(
      PayloadFaults,
      PayloadFaults.of({
        failNext: (operation, count) =>
          Effect.sync(() => {
            failures[operation] = count
          }),
        freeze: Effect.sync(() => {
          frozen ??= Deferred.makeUnsafe()
        }),
        thaw: Effect.suspend(() => {
          const held = frozen
          frozen = undefined
          return held === undefined ? Effect.void : Deferred.succeed(held, undefined)
        }),
        corrupt: Effect.sync(() => {
          reading = "corrupt"
        }),
        lose: Effect.sync(() => {
          reading = "lost"
        }),
        mend: Effect.sync(() => {
          reading = "well"
        }),
        calls: () => calls.slice()
      })
    ))
  })).pipe(Layer.provide(store))
