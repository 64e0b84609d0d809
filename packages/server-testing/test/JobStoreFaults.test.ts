/**
 * Tests a failing job store: callers and workers get a 503 which states that nothing was stored, and the platform recovers when the store
 * does.
 */
import { expect, layer } from "@effect/vitest"
import { StoreFaults } from "@stint/store-testing"
import * as EndpointStore from "@stint/store/EndpointStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { layer as layerServer, layerMemory, LIMITS, ServerTest } from "../src/ServerTest.ts"
import { expectProblem } from "../src/WireClient.ts"

const faulty = StoreFaults.layer(MemoryJobStore.layer)

layer(
  layerServer({ stores: Layer.mergeAll(layerMemory, faulty, EndpointStore.layerMemory) }).pipe(
    Layer.provideMerge(faulty)
  ),
  { excludeTestServices: true }
)("a failing job store", (it) => {
  it.effect("returns 503 to every write, stores nothing, and recovers with the store", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const faults = yield* StoreFaults.StoreFaults
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run("before")
      yield* worker.next

      yield* faults.failNextWrites(Infinity)
      const calls = [
        endpoint.call(endpoint.path("run"), { json: { input: "lost" } }),
        endpoint.call(endpoint.path("runsync"), { json: { input: "lost" } }),
        endpoint.call(endpoint.path(`stream/${id}`)),
        endpoint.call(endpoint.path(`cancel/${id}`), { method: "POST" }),
        endpoint.call(endpoint.path(`retry/${id}`), { method: "POST" }),
        endpoint.call(endpoint.path("purge-queue"), { method: "POST" }),
        worker.call(worker.addresses.done(id), { json: { output: 1 } }),
        worker.call(worker.addresses.done(id), { json: { status: "IN_PROGRESS", output: 1 } }),
        worker.call(worker.addresses.stream(id), { json: { output: 1 } }),
        worker.call(`${worker.addresses.ping}&job_id=${id}`)
      ]
      for (const call of calls) {
        const problem = yield* Effect.flatMap(call, expectProblem(503))
        expect(problem.error).toMatch(/nothing of this request was stored/)
        // The cause belongs in the platform's log, not in the response.
        expect(JSON.stringify(problem)).not.toContain("the disk is full")
      }
      // The response is delayed, because a worker would retry immediately and indefinitely.
      for (const address of [worker.addresses.take, worker.addresses.takeBatch]) {
        const [duration, answer] = yield* Effect.timed(worker.call(address))
        yield* expectProblem(503)(answer)
        expect(Duration.toMillis(duration)).toBeGreaterThanOrEqual(LIMITS.refusalWaitMs - 5)
      }
      expect((yield* server.logs).join("\n")).toContain("the disk is full")

      yield* faults.failNextWrites(0)
      expect(yield* endpoint.status(id)).toEqual({
        id,
        status: "IN_PROGRESS",
        delayTime: expect.any(Number),
        workerId: worker.id
      })
      expect((yield* endpoint.health).jobs).toMatchObject({ inQueue: 0, inProgress: 1 })
      yield* worker.finish(id, "after")
      expect((yield* endpoint.status(id)).output).toBe("after")
      expect(yield* server.works).toBe(true)
    }))

  it.effect("returns 503 with Retry-After to submissions while the disk is full, and serves everything else", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const faults = yield* StoreFaults.StoreFaults
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const held = yield* endpoint.run("held")
      yield* worker.next
      const cancelled = yield* endpoint.run("cancelled")
      yield* endpoint.run("purged")
      const logged = (yield* server.logs).length

      yield* faults.fillUp
      for (const operation of ["run", "runsync"]) {
        const answer = yield* endpoint.call(endpoint.path(operation), { json: { input: "new" } })
        const problem = yield* expectProblem(503)(answer)
        expect(problem.error).toContain("too little free space to store this request; nothing of it was stored")
        expect(answer.headers.get("retry-after")).toBe("30")
      }
      yield* worker.finish(held.id, "done")
      expect((yield* endpoint.status(held.id)).output).toBe("done")
      const cancel = yield* endpoint.call(endpoint.path(`cancel/${cancelled.id}`), { method: "POST" })
      expect(cancel.status).toBe(200)
      const purge = yield* endpoint.call(endpoint.path("purge-queue"), { method: "POST" })
      expect(purge.status).toBe(200)
      expect((yield* endpoint.health).jobs).toMatchObject({ inQueue: 0, completed: 1 })
      // The store logs the shortage once, so the server logs nothing.
      expect((yield* server.logs).slice(logged).filter((line) => line.includes("store"))).toEqual([])

      yield* faults.repair
      expect(yield* server.works).toBe(true)
    }))

  it.effect("returns 503 with the reason while the database file is missing or damaged, also from /health", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const faults = yield* StoreFaults.StoreFaults
      const endpoint = yield* server.endpoint()
      const { id } = yield* endpoint.run("before")
      for (
        const [problem, text] of [
          ["missing", "The platform's database file is missing"],
          ["damaged", "The platform's database file is damaged"]
        ] as const
      ) {
        yield* faults.breakFile(problem)
        for (
          const call of [
            endpoint.call(endpoint.path("run"), { json: { input: "new" } }),
            endpoint.call(endpoint.path(`cancel/${id}`), { method: "POST" }),
            endpoint.call(endpoint.path("health"))
          ]
        ) {
          const answer = yield* Effect.flatMap(call, expectProblem(503))
          expect(answer.error).toContain(text)
          expect(answer.hint).not.toMatch(/free space|disk/)
        }
        expect((yield* endpoint.status(id)).status).toBe("IN_QUEUE")
      }
      yield* faults.repair
      expect((yield* endpoint.health).jobs).toMatchObject({ inQueue: 1 })
    }))
})
