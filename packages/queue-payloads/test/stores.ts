/** The stores that the tests put payloads over. */
import { MemoryPayloadStore } from "@stint/payload-store"
import type { PayloadStore } from "@stint/payload-store/PayloadStore"
import * as Sqlite from "@stint/queue-sqlite"
import type { JobStore } from "@stint/queue/JobStore"
import * as MemoryJobStore from "@stint/queue/MemoryJobStore"
import type { WebhookStore } from "@stint/queue/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Payloads from "../src/index.ts"

/** A folder that goes with the scope. */
export const tempFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "stint-queue-payloads-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/** A new, empty database file with all stores. */
export const sqlite = Layer.unwrap(
  Effect.map(tempFolder, (folder) => Sqlite.layer({ file: join(folder, "stint.db"), durability: "D1", lockWaitMs: 0 }))
)

/** Every text moves, and nothing is cached. */
export const EVERYTHING: Payloads.Options = { owner: "test", threshold: 0, cache: 0 }

/** Stores under payloads that are kept in memory. */
export const withPayloads = <A, E>(stores: Layer.Layer<A | JobStore | WebhookStore, E>, options: Payloads.Options = EVERYTHING) =>
  over(stores, options, MemoryPayloadStore.layer)

/** Stores under payloads that are kept where the test says. */
export const over = <A, E, B>(
  stores: Layer.Layer<A | JobStore | WebhookStore, E>,
  options: Payloads.Options,
  payloads: Layer.Layer<B | PayloadStore>
) => Payloads.layer(options).pipe(Layer.provideMerge(Layer.merge(stores, payloads)))

/** The stores that every rule is held over. */
export const STORES: ReadonlyArray<readonly [name: string, stores: Layer.Layer<JobStore | WebhookStore, unknown>]> = [
  ["memory", MemoryJobStore.layer],
  ["sqlite", sqlite]
]
