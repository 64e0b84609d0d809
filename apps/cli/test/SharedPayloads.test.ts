import { assert, describe, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import { Scenario } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import { SharedSettings } from "@stint/store/SharedSettings"
import type { WebhookStore } from "@stint/store/WebhookStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as PayloadStores from "../src/platform/PayloadStores.ts"

const tempFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "stint-shared-payloads-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

/** The nodes of one database. */
const world = Effect.map(tempFolder, (folder) => {
  const settings = new Map<string, string>()
  const shared = Layer.succeed(SharedSettings, {
    get: (name) => Effect.sync(() => settings.get(name)),
    settle: (name, value) =>
      Effect.sync(() => {
        if (!settings.has(name)) settings.set(name, value)
        return settings.get(name) ?? value
      })
  })
  const stores: Layer.Layer<JobStore | WebhookStore | SharedSettings> = Layer.merge(MemoryJobStore.layer, shared)
  const dataDir = (name: string) => join(folder, name)
  const objects = (name: string) => join(folder, "objects", name)
  return {
    dataDir,
    objects,
    node: (name: string, place: string | undefined) =>
      Layer.build(Layer.fresh(
        PayloadStores.layer(stores, {
          location: Option.map(Option.fromUndefinedOr(place), (one) => ({ _tag: "Directory" as const, folder: objects(one) })),
          threshold: 100
        }, { dataDir: dataDir(name), isPersistent: true, sweepLock: Semaphore.makeUnsafe(1) })
      ))
  }
})

const insertLarge = (node: Context.Context<JobStore>) =>
  Context.get(node, JobStore).insert(Scenario.record({ input: toJsonText("x".repeat(1_000)) }))

describe("large payloads of several nodes", () => {
  it.effect("are stored under one name, so that each node removes the orphans of all nodes", () =>
    Effect.gen(function*() {
      const { node, objects } = yield* world
      yield* insertLarge(yield* node("a", "one"))
      yield* insertLarge(yield* node("b", "one"))
      assert.strictEqual(readdirSync(objects("one")).filter((name) => name.startsWith("stint-")).length, 1)
    }))

  it.effect("keep a node without their store, or with a different store, from starting", () =>
    Effect.gen(function*() {
      const { node } = yield* world
      yield* node("a", "one")
      assert.include((yield* Effect.flip(node("b", undefined))).message, "and STINT_PAYLOADS is not set")
      assert.include((yield* Effect.flip(node("b", "two"))).message, "but STINT_PAYLOADS is")
      yield* node("b", "one")
    }))

  it.effect("keep the name that a node recorded in its data folder earlier", () =>
    Effect.gen(function*() {
      const { dataDir, node, objects } = yield* world
      const record = { owner: "stint-earlier", location: `dir:${objects("one")}` }
      mkdirSync(dataDir("a"))
      writeFileSync(join(dataDir("a"), "payloads.json"), JSON.stringify(record))
      assert.include((yield* Effect.flip(node("a", undefined))).message, "and STINT_PAYLOADS is not set")
      yield* node("a", "one")
      yield* insertLarge(yield* node("b", "one"))
      assert.include(readdirSync(objects("one")), "stint-earlier")
    }))
})
