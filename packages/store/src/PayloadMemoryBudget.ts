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

/** Memory that is reserved piece by piece, while a payload of unknown size arrives. */
export interface GrowingReservation {
  /** Reserves more bytes. Returns false and reserves nothing beyond the limit. A single payload always fits. */
  readonly grow: (bytes: number) => boolean
}

/** The memory held by large payloads. */
export interface PayloadMemoryBudgetService {
  /** Reserves bytes until the scope closes. Returns false and reserves nothing beyond the limit. A single payload always fits. */
  readonly tryReserve: (bytes: number) => Effect.Effect<boolean, never, Scope.Scope>
  /** Reserves bytes until the scope closes, even beyond the limit, for payloads that are in memory already. */
  readonly reserve: (bytes: number) => Effect.Effect<void, never, Scope.Scope>
  /** A reservation of 0 bytes that can grow, released when the scope closes. */
  readonly growing: Effect.Effect<GrowingReservation, never, Scope.Scope>
  /** The reserved bytes. */
  readonly reserved: () => number
}

/** The budget in use. Default: unlimited. */
export const PayloadMemoryBudget: Context.Reference<PayloadMemoryBudgetService> = Context.Reference<PayloadMemoryBudgetService>(
  "@stint/store/PayloadMemoryBudget",
  {
    defaultValue: () => ({
      tryReserve: () => Effect.succeed(true),
      reserve: () => Effect.void,
      growing: Effect.succeed({ grow: () => true }),
      reserved: () => 0
    })
  }
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
    growing: Effect.acquireRelease(
      Effect.sync(() => {
        let own = 0
        return {
          grow: (bytes: number) => {
            if (reserved > own && reserved + bytes > limit) return false
            reserved += bytes
            own += bytes
            return true
          },
          release: () => {
            reserved -= own
          }
        }
      }),
      ({ release }) => Effect.sync(release)
    ),
    reserved: () => reserved
  }
}

/** Sets a budget of `limit` bytes. */
export const layer = (limit: number): Layer.Layer<never> => Layer.sync(PayloadMemoryBudget, () => make(limit))
