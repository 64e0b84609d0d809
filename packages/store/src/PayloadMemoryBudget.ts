/**
 * A memory budget for large payloads in flight.
 *
 * A payload is in memory from the first byte of its request until its job is stored, and from the store read until the last byte of the
 * response. A hundred requests of a hundred megabytes each would exhaust the memory of the process. The budget counts large payloads only;
 * requests that exceed it must be retried later.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"

/** Smaller payloads are not counted. */
export const BUDGET_THRESHOLD_BYTES = 1024 * 1024

/** The memory held by large payloads. */
export interface PayloadMemoryBudgetService {
  /** Reserves bytes until the scope closes. Returns false and reserves nothing beyond the limit. A single payload always fits. */
  readonly tryReserve: (bytes: number) => Effect.Effect<boolean, never, Scope.Scope>
  /** Reserves bytes until the scope closes, even beyond the limit, for payloads that are in memory already. */
  readonly reserve: (bytes: number) => Effect.Effect<void, never, Scope.Scope>
  /** The reserved bytes. */
  readonly reserved: () => number
}

/** The budget in use. Default: unlimited. */
export const PayloadMemoryBudget: Context.Reference<PayloadMemoryBudgetService> = Context.Reference<PayloadMemoryBudgetService>(
  "@stint/store/PayloadMemoryBudget",
  { defaultValue: () => ({ tryReserve: () => Effect.succeed(true), reserve: () => Effect.void, reserved: () => 0 }) }
)

/** A budget of `limit` bytes. */
export const make = (limit: number): PayloadMemoryBudgetService => {
  let reserved = 0
  const acquire = (bytes: number) =>
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
      Effect.suspend(() => reserved > 0 && reserved + bytes > limit ? Effect.succeed(false) : Effect.as(acquire(bytes), true)),
    reserve: acquire,
    reserved: () => reserved
  }
}

/** Sets a budget of `limit` bytes. */
export const layer = (limit: number): Layer.Layer<never> => Layer.sync(PayloadMemoryBudget, () => make(limit))
