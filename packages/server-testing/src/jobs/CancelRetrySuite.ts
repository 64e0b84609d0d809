/**
 * Tests cancel, retry and purge-queue (docs/spec/jobs-api.md#cancelling-a-job, docs/spec/job-lifecycle.md#transitions).
 */
import { expect } from "@effect/vitest"
import { JobQueue } from "@stint/queue/JobQueue"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { until } from "../TestEndpoint.ts"
import { expectProblem } from "../WireClient.ts"

/** Registers the tests for cancelling and retrying jobs. */
export const cancelsAndRetries = (it: ServerIt): void => {
  it.effect("cancel: a waiting job becomes CANCELLED and is never taken", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      expect(yield* endpoint.cancel(id)).toEqual({ id, status: "CANCELLED" })
      expect(yield* worker.take()).toBeUndefined()
      expect(yield* endpoint.status(id)).toEqual({ id, status: "CANCELLED" })
    }))

  it.effect("cancel: a running job becomes CANCELLED at once, waiting callers are notified, and its worker receives a stop signal", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const waiting = yield* Effect.forkChild(endpoint.statusSync(id))
      const stopping = yield* Effect.forkChild(until(worker.stops, (ids) => ids.length > 0))
      expect(yield* endpoint.cancel(id)).toEqual({ id, status: "CANCELLED" })
      expect(yield* Fiber.join(waiting)).toMatchObject({ id, status: "CANCELLED", executionTime: expect.any(Number) })
      expect(yield* Fiber.join(stopping)).toEqual([id])
      // A result in flight changes nothing and is not treated as an error of the worker.
      expect((yield* worker.deliver(id, { output: "late" })).status).toBe(200)
      expect((yield* endpoint.status(id)).status).toBe("CANCELLED")
    }))

  it.effect("cancel: an ended job does not change", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.finish(id, "kept")
      expect(yield* endpoint.cancel(id)).toEqual({ id, status: "COMPLETED" })
      expect((yield* endpoint.status(id)).output).toBe("kept")
    }))

  it.effect("retry: a FAILED job returns to the queue with its id and input, without its error, output and chunks", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({ again: true })
      yield* worker.next
      yield* worker.stream(id, ["old"])
      yield* worker.deliver(id, { error: "no", output: "old" })
      expect(yield* endpoint.retry(id)).toEqual({ id, status: "IN_QUEUE" })
      expect(yield* endpoint.status(id)).toMatchObject({ id, status: "IN_QUEUE" })
      expect(Object.keys(yield* endpoint.status(id))).not.toContain("error")
      expect(yield* worker.next).toMatchObject({ id, input: { again: true }, attempt: 2 })
      yield* worker.stream(id, ["new"])
      yield* worker.finish(id, "better")
      expect((yield* endpoint.stream(id)).stream).toEqual([{ output: "new" }])
      expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED", output: "better" })
    }))

  it.effect("retry: rejects jobs that are not FAILED or TIMED_OUT", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      const retry = endpoint.call(endpoint.path(`retry/${id}`), { method: "POST" })
      expect((yield* expectProblem(409)(yield* retry)).error).toContain("IN_QUEUE")
      yield* worker.next
      expect((yield* expectProblem(409)(yield* retry)).error).toContain("IN_PROGRESS")
      yield* worker.finish(id, 1)
      expect((yield* expectProblem(409)(yield* retry)).error).toContain("COMPLETED")
    }))

  it.effect("purge-queue: cancels the waiting jobs of this endpoint and returns their number", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const other = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const running = yield* endpoint.run(0)
      yield* worker.next
      const waiting = [yield* endpoint.run(1), yield* endpoint.run(2)]
      const elsewhere = yield* other.run(3)
      expect(yield* endpoint.purge).toEqual({ removed: 2, status: "completed" })
      expect(yield* endpoint.purge).toEqual({ removed: 0, status: "completed" })
      for (const { id } of waiting) expect((yield* endpoint.status(id)).status).toBe("CANCELLED")
      expect((yield* endpoint.status(running.id)).status).toBe("IN_PROGRESS")
      expect((yield* other.status(elsewhere.id)).status).toBe("IN_QUEUE")
    }))

  it.effect("finds a job only on its own endpoint", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const other = yield* server.endpoint()
      const { id } = yield* endpoint.run({})
      const calls = [["GET", "status"], ["POST", "status"], ["GET", "status-sync"], ["GET", "stream"], ["POST", "cancel"], [
        "POST",
        "retry"
      ]]
      for (const [method = "", operation] of calls) {
        const problem = yield* Effect.flatMap(other.call(other.path(`${operation}/${id}`), { method }), expectProblem(404))
        expect(problem).toMatchObject({ type: "/problems/job-not-found", error: expect.stringContaining(id) })
      }
      expect((yield* endpoint.status(id)).status).toBe("IN_QUEUE")
    }))

  it.effect("uses the provided queue", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const { id } = yield* endpoint.run("seen from inside")
      const queue = yield* JobQueue
      expect((yield* queue.get(endpoint.endpoint.id, id)).status).toBe("IN_QUEUE")
    }))
}
