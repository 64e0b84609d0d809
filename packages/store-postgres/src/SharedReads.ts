/**
 * Reads of one turn of the event loop that share a statement, for what many callers read at the same time (`AlignedSleep`).
 */
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Request from "effect/Request"
import * as RequestResolver from "effect/RequestResolver"

/** The maximum number of keys in one statement. */
const MAX_KEYS = 500

/** Ends when the timers and sockets of this turn have been handled. */
const endOfTurn: Effect.Effect<void> = Effect.callback((resume) => void setImmediate(() => resume(Effect.void)))

/** Reads one key. `readAll` receives the keys of a turn, and returns their results in the same order. Its failure fails all of them. */
export const make = <Key, A>(
  readAll: (keys: ReadonlyArray<Key>) => Effect.Effect<ReadonlyArray<A>, StoreError>
): (key: Key) => Effect.Effect<A, StoreError> => {
  class Read extends Request.Class<{ readonly key: Key }, A, StoreError> {}
  const resolver = RequestResolver.makeWith<Read>({
    batchKey: () => "all",
    delay: endOfTurn,
    collectWhile: ({ size }) => size < MAX_KEYS,
    runAll: (entries) =>
      Effect.map(readAll(entries.map(({ request }) => request.key)), (results) => {
        for (const [index, entry] of entries.entries()) {
          const result = results[index]
          if (result !== undefined) entry.completeUnsafe(Exit.succeed(result))
        }
      })
  })
  return (key) => Effect.request(new Read({ key }), resolver)
}
