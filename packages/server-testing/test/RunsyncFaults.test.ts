/**
 * Tests `/runsync` when the store fails after the job was stored.
 */
import { expect, layer } from "@effect/vitest"
import { JobStore } from "@stint/store/JobStore"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { ADMIN_KEY, layer as layerServer, layerMemory, ServerTest } from "../src/ServerTest.ts"
import { expectProblem } from "../src/WireClient.ts"

/** Whether reads of jobs succeed. */
class Reads extends Context.Service<Reads, { broken: boolean }>()("@stint/server/test/Reads") {}

const layerReads = Layer.sync(Reads, () => ({ broken: false }))

/** The memory store, with reads that can be made to fail. */
const layerStores = Layer.effect(
  JobStore,
  Effect.map(Effect.all({ store: JobStore, reads: Reads }), ({ reads, store }) => ({
    ...store,
    get: (...args: Parameters<typeof store.get>) =>
      Effect.suspend(() =>
        reads.broken
          ? Effect.fail(
            new StoreError({ reason: new StoreUnavailable({ operation: "get", cause: new Error("the disk is gone") }) })
          )
          : store.get(...args)
      )
  }))
).pipe(Layer.provideMerge(layerMemory), Layer.provide(layerReads))

layer(layerServer({ stores: layerStores }).pipe(Layer.provideMerge(layerReads)), { excludeTestServices: true })(
  "runsync over a failing store",
  (it) => {
    it.effect("returns the stored job, so that its caller polls, and logs the cause", () =>
      Effect.gen(function*() {
        const server = yield* ServerTest
        const reads = yield* Reads
        const endpoint = yield* server.endpoint()
        const worker = yield* endpoint.worker()
        const response = yield* Effect.promise(() =>
          fetch(`${server.baseUrl}${endpoint.path("runsync")}`, {
            method: "POST",
            body: "{\"input\":1}",
            headers: { authorization: ADMIN_KEY }
          })
        )
        const id = response.headers.get("x-job-id") ?? ""
        yield* worker.next
        reads.broken = true
        yield* worker.finish(id, "done")
        expect(yield* Effect.promise(() => response.json())).toEqual({ id, status: "IN_QUEUE" })
        expect((yield* server.logs).join("\n")).toContain(`The wait for job ${id} to end failed`)
        yield* Effect.flatMap(endpoint.call(endpoint.path(`status/${id}`)), expectProblem(503))
        // The result is the same when the store fails immediately.
        const { headers, json } = yield* endpoint.call(endpoint.path("runsync"), { json: { input: 2 } })
        expect(json).toEqual({ id: headers.get("x-job-id"), status: "IN_QUEUE" })
        reads.broken = false
        expect(yield* endpoint.statusSync(id)).toMatchObject({ status: "COMPLETED", output: "done" })
      }))
  }
)
