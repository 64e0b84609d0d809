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
export const COUNTED_FROM = 1024 * 1024

/** What large payloads hold of the memory. */
export interface PayloadMemorySettings {
  /** Holds so many bytes until the scope closes. False, and nothing is held, where they do not fit. One that is alone always fits. */
  readonly claim: (bytes: number) => Effect.Effect<boolean, never, Scope.Scope>
  /** Holds so many bytes until the scope closes, although they may not fit: they are in memory already. */
  readonly note: (bytes: number) => Effect.Effect<void, never, Scope.Scope>
  /** Bytes that are held now. */
  readonly held: () => number
}

/** The memory in force. Without a layer nothing is counted, and everything fits. */
export const PayloadMemory: Context.Reference<PayloadMemorySettings> = Context.Reference<PayloadMemorySettings>(
  "@stint/queue/PayloadMemory",
  { defaultValue: () => ({ claim: () => Effect.succeed(true), note: () => Effect.void, held: () => 0 }) }
)

/** A memory of so many bytes. */
export const make = (limit: number): PayloadMemorySettings => {
  let held = 0
  const hold = (bytes: number) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        held += bytes
      }),
      () =>
        Effect.sync(() => {
          held -= bytes
        })
    )
  return {
    claim: (bytes) =>
      Effect.suspend(() => held > 0 && held + bytes > limit ? Effect.succeed(false) : Effect.as(hold(bytes), true)),
    note: hold,
    held: () => held
  }
}

/** A memory of so many bytes, for everything that is built upon it. */
export const layer = (limit: number): Layer.Layer<never> => Layer.sync(PayloadMemory, () => make(limit))
