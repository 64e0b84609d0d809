/**
 * Tests numbered chunks (job-stream with `chunk`): a repeated chunk is stored once, and a chunk after a gap is rejected.
 */
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectProblem } from "../WireClient.ts"
import { SDK_LABELS, type WireWorker } from "../WireWorker.ts"

const send = (worker: WireWorker, job: string, chunk: number | string, output: unknown) =>
  worker.call(`${worker.addresses.stream(job)}&isStream=false&chunk=${chunk}`, {
    body: JSON.stringify({ output }),
    headers: SDK_LABELS
  })

/** Registers the tests for numbered chunks. */
export const chunks = (it: ServerIt): void => {
  it.effect("job-stream: returns 200 for a repeated chunk and stores it once", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      for (const [chunk, output] of [[1, "a"], [1, "a"], [2, "b"], [1, "a"], [2, "b"], [3, "c"]] as const) {
        expect((yield* send(worker, id, chunk, output)).status).toBe(200)
      }
      yield* worker.finish(id, 1)
      const pages = yield* endpoint.streamToEnd(id)
      expect(pages.flatMap(({ stream }) => stream.map(({ output }) => output))).toEqual(["a", "b", "c"])
    }))

  it.effect("job-stream: returns 409 for a chunk after a gap and does not store it", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      expect((yield* send(worker, id, 1, "a")).status).toBe(200)
      const problem = yield* Effect.flatMap(send(worker, id, 3, "c"), expectProblem(409))
      expect(problem.error).toContain("before chunk 2")
      expect((yield* send(worker, id, 2, "b")).status).toBe(200)
      expect((yield* send(worker, id, 3, "c")).status).toBe(200)
      const { stream } = yield* endpoint.stream(id)
      expect(stream.map(({ output }) => output)).toEqual(["a", "b", "c"])
    }))

  it.effect("job-stream: treats each chunk without a number as new, because existing workers send no numbers", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.stream(id, ["same", "same"])
      expect((yield* endpoint.stream(id)).stream).toHaveLength(2)
    }))

  it.effect("job-stream: returns 400 for an invalid chunk number", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      for (const chunk of ["0", "-1", "1.5", "one", "", "1e3"]) {
        const problem = yield* Effect.flatMap(send(worker, id, chunk, "x"), expectProblem(400))
        expect(problem.errors?.[0]?.path, chunk).toEqual(["chunk"])
      }
      expect((yield* endpoint.stream(id)).stream).toEqual([])
    }))
}
