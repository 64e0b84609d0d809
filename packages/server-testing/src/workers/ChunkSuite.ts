/**
 * Tests chunks. Numbered chunks (job-stream with `chunk`): a repeated chunk is stored once, and a chunk after a gap is rejected. Chunks without
 * numbers, from SDKs that ignore a rejection: a large text is split, and any other chunk that cannot be stored fails its job.
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

  it.effect("job-stream: splits a text over the limit into chunks that together form the text", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const text = `${"x".repeat(1_500_000)}${"\"é漢😀\n".repeat(100_000)}`
      yield* worker.stream(id, ["a", text, "b"])
      yield* worker.finish(id, [])
      const pages = yield* endpoint.streamToEnd(id)
      const outputs = pages.flatMap(({ stream }) => stream.map(({ output }) => (typeof output === "string" ? output : "")))
      expect(pages.at(-1)?.status).toBe("COMPLETED")
      expect([outputs[0], outputs.slice(1, -1).join("") === text, outputs.at(-1)]).toEqual(["a", true, "b"])
      for (const output of outputs) expect(Buffer.byteLength(JSON.stringify(output))).toBeLessThanOrEqual(1024 * 1024)
    }))

  it.effect("job-stream: fails and stops a job when it cannot store one of its chunks, because the worker would complete the job without that chunk", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const large = JSON.stringify({ output: { image: "x".repeat(1024 * 1024) } })
      const larger = JSON.stringify({ output: "x".repeat(20 * 1024 * 1024) })
      const bodies = [[large, 413], [larger, 413], ["{\"output\":NaN}", 400], ["nope", 400], ["{}", 400], ["[]", 400]] as const
      for (const [body, status] of bodies) {
        const { id } = yield* endpoint.run({})
        yield* worker.next
        yield* worker.stream(id, ["before"])
        const problem = yield* Effect.flatMap(
          worker.call(`${worker.addresses.stream(id)}&isStream=false`, { body, headers: SDK_LABELS }),
          expectProblem(status)
        )
        // The worker ignores the response.
        yield* worker.stream(id, ["after"])
        expect(yield* worker.stops).toContain(id)
        yield* worker.finish(id, [])
        expect(yield* endpoint.stream(id)).toMatchObject({
          status: "FAILED",
          error: `The worker streamed a chunk that cannot be stored. ${problem.error} ${problem.hint}`,
          stream: [{ output: "before" }]
        })
      }
    }))

  it.effect("job-stream: a chunk that cannot be stored fails no job of another worker", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const otherWorker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* Effect.flatMap(otherWorker.call(otherWorker.addresses.stream(id), { body: "nope" }), expectProblem(400))
      expect((yield* endpoint.status(id)).status).toBe("IN_PROGRESS")
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
