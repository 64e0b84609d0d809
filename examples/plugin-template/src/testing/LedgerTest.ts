/**
 * A ledger in memory, for tests.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type Entry, Ledger } from "../Ledger.ts"

/** The entries so far. */
export class Entries extends Context.Service<Entries, Array<Entry>>()("example-plugin-template/testing/Entries") {}

/** Stores entries in memory. */
export const layer: Layer.Layer<Ledger | Entries> = Layer.effectContext(Effect.sync(() => {
  const entries: Array<Entry> = []
  return Context.make(Entries, entries).pipe(
    Context.add(Ledger, { write: (entry) => Effect.sync(() => void entries.push(entry)) })
  )
}))

/** All entries, oldest first. */
export const entries: Effect.Effect<ReadonlyArray<Entry>, never, Entries> = Effect.map(Entries, (all) => [...all])
