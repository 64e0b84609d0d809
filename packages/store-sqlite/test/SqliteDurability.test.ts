import { assert, describe, it } from "@effect/vitest"
import { JobId } from "@stint/contract/Ids"
import { JobCommands, Scenario } from "@stint/store-testing"
import { EndpointStore } from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as fc from "fast-check"
import { spawn } from "node:child_process"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteEndpointStore from "../src/SqliteEndpointStore.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import * as WalSpace from "../src/WalSpace.ts"
import { tempFile } from "./TestDatabase.ts"
import { cutWal } from "./WalCuts.ts"

const stores = (file: string, durability: "D1" | "D2" = "D2") =>
  Layer.mergeAll(SqliteJobStore.layer, SqliteEndpointStore.layer).pipe(
    Layer.provideMerge(SqliteDatabase.layer({ file, durability, lockWaitMs: 0 }))
  )

/** Opens the file for as long as `use` runs. */
const open = <A, E>(
  file: string,
  use: Effect.Effect<A, E, JobStore | EndpointStore | SqliteDatabase.SqliteDatabase>
) => Effect.provide(use, stores(file), { local: true })

/** Returns the ids whose jobs are not in the store. */
const missingOf = (ids: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const store = yield* JobStore
    return yield* Effect.filter(ids, (id) =>
      Effect.map(store.get(Scenario.endpoint().id, JobId.make(id)), (job) => job === undefined))
  })

/** A store that is closed and reopened before every third operation. */
const reopening = Effect.fnUntraced(function*(file: string) {
  let scope: Scope.Closeable | undefined
  let uses = 0
  let current: JobStore["Service"] | undefined
  const store = Effect.gen(function*() {
    if (current !== undefined && uses++ % 3 !== 0) return current
    if (scope !== undefined) yield* Scope.close(scope, Exit.void)
    scope = yield* Scope.make()
    current = Context.get(yield* Layer.buildWithScope(stores(file, "D1"), scope), JobStore)
    return current
  }).pipe(Effect.orDie)
  yield* Effect.addFinalizer(() => scope === undefined ? Effect.void : Scope.close(scope, Exit.void))
  const after = <A, E>(use: (store: JobStore["Service"]) => Effect.Effect<A, E>) => Effect.flatMap(store, use)
  return JobStore.of({
    durability: "D1",
    insert: (job, key, quotas) => after((store) => store.insert(job, key, quotas)),
    apply: (endpoint, id, event) => after((store) => store.apply(endpoint, id, event)),
    append: (endpoint, id, event, body) => after((store) => store.append(endpoint, id, event, body)),
    claim: (endpoint, limit, event) => after((store) => store.claim(endpoint, limit, event)),
    tick: (event, limit) => after((store) => store.tick(event, limit)),
    applyRunning: (filter, event) => after((store) => store.applyRunning(filter, event)),
    applyWaiting: (endpoint, event, limit) => after((store) => store.applyWaiting(endpoint, event, limit)),
    get: (endpoint, id) => after((store) => store.get(endpoint, id)),
    traceOf: (endpoint, id) => after((store) => store.traceOf(endpoint, id)),
    input: (endpoint, id) => after((store) => store.input(endpoint, id)),
    drain: (endpoint, id, limit) => after((store) => store.drain(endpoint, id, limit)),
    peek: (endpoint, id, place, limit) => after((store) => store.peek(endpoint, id, place, limit)),
    list: (endpoint, query) => after((store) => store.list(endpoint, query)),
    texts: (endpoint, ids) => after((store) => store.texts(endpoint, ids)),
    keyUsage: (endpoint, id, limit) => after((store) => store.keyUsage(endpoint, id, limit)),
    ahead: (endpoint, id, limit) => after((store) => store.ahead(endpoint, id, limit)),
    depth: (endpoint) => after((store) => store.depth(endpoint))
  })
})

describe("durability", () => {
  it.live(
    "R1: keeps the complete state of a job when the file is closed and reopened at any point of its life",
    () =>
      Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(JobCommands.commands, (commands) =>
            Effect.runPromise(
              Effect.scoped(Effect.flatMap(Effect.flatMap(tempFile, reopening), (store) =>
                JobCommands.run(store, commands, { everyStep: false })))
            )),
          { numRuns: 10 }
        )
      ),
    180_000
  )

  it.live("keeps endpoints after closing and opening", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      const endpoint = Scenario.endpoint({ env: { CITY: "Zürich" } })
      yield* open(file, Effect.flatMap(EndpointStore, (store) => store.put(endpoint)))
      assert.deepStrictEqual(yield* open(file, Effect.flatMap(EndpointStore, (store) => store.list)), [endpoint])
      yield* open(file, Effect.flatMap(EndpointStore, (store) => store.remove(endpoint.id)))
      assert.deepStrictEqual(yield* open(file, Effect.flatMap(EndpointStore, (store) => store.list)), [])
    }))

  it.live("finishes pending writes before closing", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      const scope = yield* Scope.make()
      const store = Context.get(yield* Layer.buildWithScope(stores(file), scope), JobStore)
      const job = Scenario.record()
      const inserting = yield* Effect.forkChild(store.insert(job), { startImmediately: true })
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(yield* open(file, missingOf([job.id])), [])
      assert.isTrue(Exit.isSuccess(yield* Effect.fromNullishOr(inserting.pollUnsafe())))
      assert.strictEqual(yield* Scenario.reasonOf(store.insert(Scenario.record())), "StoreUnavailable")
      assert.strictEqual(yield* Scenario.reasonOf(store.get(job.endpoint, job.id)), "StoreUnavailable")
    }))

  for (const durability of ["D1", "D2"] as const) {
    it.live(`R1: keeps every acknowledged job after kill -9 (${durability})`, () =>
      Effect.gen(function*() {
        const file = yield* tempFile
        const acknowledged: Array<string> = []
        // The second round starts with the file that the first round left behind.
        for (const enough of [300, 700]) {
          const child = spawn(process.execPath, [
            fileURLToPath(new URL("fixtures/submitter.ts", import.meta.url)),
            file,
            durability
          ], {
            stdio: ["ignore", "pipe", "inherit"]
          })
          const ended = new Promise<NodeJS.Signals | null>((resolve) => child.once("exit", (_, signal) => resolve(signal)))
          yield* Effect.promise(async () => {
            for await (const id of createInterface({ input: child.stdout })) {
              acknowledged.push(id)
              if (acknowledged.length === enough) child.kill("SIGKILL")
            }
          })
          assert.strictEqual(yield* Effect.promise(() => ended), "SIGKILL")
          assert.isAtLeast(acknowledged.length, enough)
          yield* open(
            file,
            Effect.gen(function*() {
              // The last line of output may be incomplete.
              assert.deepStrictEqual(yield* missingOf(acknowledged.filter((id) => id.length === 36)), [])
              const { waiting } = yield* (yield* JobStore).depth(Scenario.endpoint().id)
              assert.isAtLeast(waiting, acknowledged.length - 1)
            })
          )
        }
      }))
  }

  it.live("R12: keeps every acknowledged job when the WAL is cut off anywhere after the job's commit", () => cutWal(60))

  it.live("R12: keeps every acknowledged job when only zeros follow its commit in a WAL of full size", () =>
    cutWal(60, WalSpace.FULL_SIZE))
})
