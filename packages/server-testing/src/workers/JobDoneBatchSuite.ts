/**
 * Tests job-done-batch (docs/spec/worker-protocol.md#delivering-several-results).
 */
import { expect } from "@effect/vitest"
import { type DeliveredResult, DeliveryStatus, LEASE_TOKEN_HEADER, TakenJob } from "@stint/contract/WorkerProtocol"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"
import type { WireWorker } from "../WireWorker.ts"

const statuses = expectJson(200, Schema.Array(DeliveryStatus))
const takenJobs = expectJson(200, Schema.Array(TakenJob))

const deliver = (worker: WireWorker, results: ReadonlyArray<DeliveredResult>) =>
  Effect.flatMap(worker.call(worker.addresses.doneBatch, { json: results }), statuses)

const make = Effect.gen(function*() {
  const endpoint = yield* (yield* ServerTest).endpoint()
  return { endpoint, worker: yield* endpoint.worker("holder"), other: yield* endpoint.worker("other") }
})

/** Registers the tests. */
export const jobDoneBatches = (it: ServerIt): void => {
  it.effect("job-done-batch: stores each result as job-done does, and returns their statuses in the same order", () =>
    Effect.gen(function*() {
      const { endpoint, worker } = yield* make
      for (const input of [1, 2, 3, 4]) yield* endpoint.run(input)
      const [a, b, c, d] = yield* worker.takeBatch(4)
      const results = [
        { id: a?.id ?? "", attempt: 1, output: { text: "grüße 漢字" } },
        { id: b?.id ?? "", attempt: 1, error: "no such city" },
        { id: c?.id ?? "", status: "IN_PROGRESS", output: "half" },
        { id: d?.id ?? "" }
      ]
      expect(yield* deliver(worker, results)).toEqual(results.map(() => ({ status: 200 })))
      expect(yield* endpoint.status(a?.id ?? "")).toMatchObject({ status: "COMPLETED", output: { text: "grüße 漢字" } })
      expect(yield* endpoint.status(b?.id ?? "")).toMatchObject({ status: "FAILED", error: "no such city" })
      expect(yield* endpoint.status(c?.id ?? "")).toMatchObject({ status: "IN_PROGRESS", output: "half" })
      expect(yield* endpoint.status(d?.id ?? "")).toMatchObject({ status: "COMPLETED" })
      // A repeated request changes nothing.
      expect(yield* deliver(worker, [{ id: a?.id ?? "", attempt: 1, output: "another" }])).toEqual([{ status: 200 }])
      expect(yield* endpoint.status(a?.id ?? "")).toMatchObject({ output: { text: "grüße 漢字" } })
    }))

  it.effect("job-done-batch: keeps outputs as they were sent", () =>
    Effect.gen(function*() {
      const { endpoint, worker } = yield* make
      const { id } = yield* endpoint.run(1)
      yield* worker.next
      const output = "{\"2\":18446744073709551615,\"1\":[1.0,{}]}"
      const body = `[{"output": ${output} , "id":"${id}","attempt":1,"logs":"unknown"}]`
      expect(yield* Effect.flatMap(worker.call(worker.addresses.doneBatch, { body }), statuses)).toEqual([{ status: 200 }])
      const { text } = yield* endpoint.call(endpoint.path(`status/${id}`))
      expect(text).toContain(`"output":${output}`)
    }))

  it.effect("job-done-batch: refuses a result with the status and the reason of job-done, and stores the others", () =>
    Effect.gen(function*() {
      const { endpoint, other, worker } = yield* make
      for (const input of [1, 2, 3]) yield* endpoint.run(input)
      const [a, b] = yield* worker.takeBatch(2)
      const theirs = yield* other.next
      const answers = yield* deliver(worker, [
        { id: a?.id ?? "", attempt: 1, output: 1 },
        { id: theirs.id, attempt: 1, output: 1 },
        { id: "unknown", output: 1 },
        { id: "../../etc", output: 1 },
        { id: b?.id ?? "", attempt: 2, output: 1 },
        { id: b?.id ?? "", attempt: 1, output: 2 }
      ])
      expect(answers.map(({ status }) => status)).toEqual([200, 409, 404, 404, 409, 200])
      expect(answers[1]).toMatchObject({ error: expect.stringContaining("\"other\""), hint: expect.any(String) })
      expect(yield* endpoint.status(theirs.id)).toMatchObject({ status: "IN_PROGRESS", workerId: "other" })
      expect(yield* endpoint.status(b?.id ?? "")).toMatchObject({ status: "COMPLETED", output: 2 })
    }))

  it.effect("job-done-batch: refuses each element that is not a result", () =>
    Effect.gen(function*() {
      const { endpoint, worker } = yield* make
      const { id } = yield* endpoint.run(1)
      yield* worker.next
      const good = JSON.stringify({ id, output: 1 })
      const bad = [
        "null",
        "7",
        "[]",
        "{}",
        "{\"id\":7}",
        `{"id":"${id}","attempt":0}`,
        `{"id":"${id}","attempt":"1"}`,
        `{"id":"${id}","leaseToken":1}`
      ]
      const body = `[${[...bad, good].join(",")}]`
      const answers = yield* Effect.flatMap(worker.call(worker.addresses.doneBatch, { body }), statuses)
      expect(answers.map(({ status }) => status)).toEqual([...bad.map(() => 400), 200])
      expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED", output: 1 })
    }))

  it.effect("job-done-batch: rejects a body that is not a list of at most 1,000 results", () =>
    Effect.gen(function*() {
      const { worker } = yield* make
      for (const body of ["", "{", "{}", "7", "[1,", "[{\"output\":NaN}]"]) {
        yield* Effect.flatMap(worker.call(worker.addresses.doneBatch, { method: "POST", body }), expectProblem(400))
      }
      const many = Array.from({ length: 1_001 }, (_, n) => ({ id: `j${n}` }))
      const problem = yield* Effect.flatMap(worker.call(worker.addresses.doneBatch, { json: many }), expectProblem(400))
      expect(problem.error).toContain("1000")
      expect((yield* deliver(worker, many.slice(1))).map(({ status }) => status)).toEqual(many.slice(1).map(() => 404))
      expect(yield* deliver(worker, [])).toEqual([])
      const large = JSON.stringify([{ id: "j1", output: "x".repeat(20 * 1024 * 1024) }])
      yield* Effect.flatMap(worker.call(worker.addresses.doneBatch, { body: large }), expectProblem(413))
    }))

  it.effect("job-done-batch: a result with stopPod gives the worker no more jobs", () =>
    Effect.gen(function*() {
      const { endpoint, other, worker } = yield* make
      yield* endpoint.run(1)
      const { id } = yield* worker.next
      expect(yield* deliver(worker, [{ id, output: 1, stopPod: true }])).toEqual([{ status: 200 }])
      const next = yield* endpoint.run(2)
      expect(yield* worker.take()).toBeUndefined()
      expect(yield* other.next).toMatchObject({ id: next.id })
    }))

  it.effect("job-done-batch: stores no result of a job that another worker took with a token", () =>
    Effect.gen(function*() {
      const { endpoint, other, worker } = yield* make
      yield* endpoint.run(1)
      yield* endpoint.run(2)
      const take = (one: WireWorker) =>
        Effect.flatMap(one.call(one.addresses.takeBatch, { headers: { [LEASE_TOKEN_HEADER]: "1" } }), takenJobs)
      const [job] = yield* take(worker)
      const [theirs] = yield* take(other)
      const id = job?.id ?? ""
      const token = job?.leaseToken ?? ""
      const forged = [
        { id, output: 0 },
        { id, attempt: 1, output: 0 },
        { id, leaseToken: "", output: 0 },
        { id, leaseToken: theirs?.leaseToken ?? "", output: 0 },
        { id, leaseToken: token.replace("1.", "2."), output: 0 },
        { id, attempt: 2, leaseToken: token, output: 0 }
      ]
      // Both workers have the key of the endpoint, so another worker can send the name of this one.
      for (const { error, status } of yield* deliver(worker, forged)) {
        expect(status).toBe(409)
        expect(error).toMatch(/lease token/)
      }
      expect((yield* deliver(other, [{ id, leaseToken: token, output: 0 }])).map(({ status }) => status)).toEqual([409])
      expect(yield* endpoint.status(id)).toMatchObject({ status: "IN_PROGRESS" })
      expect(yield* deliver(worker, [{ id, attempt: 1, leaseToken: token, output: "own" }])).toEqual([{ status: 200 }])
      expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED", output: "own" })
    }))
}
