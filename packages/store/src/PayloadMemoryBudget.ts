/**
 * How much of the machine's memory large payloads may take at once.
 *
 * Payloads are texts in memory while they cross the platform: from the first byte of a request until its job is kept, from the store until
 * the last byte of an answer is written. A hundred callers with a hundred megabytes each would end the process, so what is large is counted
 * here, and whoever would be one too many is asked to come back instead. What is small is not counted: it costs more to count than to hold.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"

/** A payload of fewer bytes than this is not counted. */
export const BUDGET_THRESHOLD_BYTES = 1024 * 1024

/** What large payloads hold of the memory. */
export interface PayloadMemoryBudgetService {
  /** Holds so many bytes until the scope closes. False, and nothing is held, where they do not fit. One that is alone always fits. */
  readonly tryReserve: (bytes: number) => Effect.Effect<boolean, never, Scope.Scope>
  /** Holds so many bytes until the scope closes, although they may not fit: they are in memory already. */
  readonly reserve: (bytes: number) => Effect.Effect<void, never, Scope.Scope>
  /** Bytes that are held now. */
  readonly reserved: () => number
}

/** The memory in force. Without a layer nothing is counted, and everything fits. */
export const PayloadMemoryBudget: Context.Reference<PayloadMemoryBudgetService> = Context.Reference<PayloadMemoryBudgetService>(
  "@stint/store/PayloadMemoryBudget",
  { defaultValue: () => ({ tryReserve: () => Effect.succeed(true), reserve: () => Effect.void, reserved: () => 0 }) }
)

/** A memory of so many bytes. */
export const make = (limit: number): PayloadMemoryBudgetService => {
  let reserved = 0
  const hold = (bytes: number) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        reserved += bytes
      }),
      () =>
        Effect.sync(() => {
          reserved -= bytes
        })
    )
  return {
    tryReserve: (bytes) =>
      Effect.suspend(() => reserved > 0 && reserved + bytes > limit ? Effect.succeed(false) : Effect.as(hold(bytes), true)),
    reserve: hold,
    reserved: () => reserved
  }
}

/** A memory of so many bytes, for everything that is built upon it. */
export const layer = (limit: number): Layer.Layer<never> => Layer.sync(PayloadMemoryBudget, () => make(limit))
