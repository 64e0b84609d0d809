/**
 * Tests that a worker cannot act as another worker of its endpoint: worker keys of one worker, and lease tokens
 * (docs/spec/worker-protocol.md#lease-tokens).
 */
import { expect } from "@effect/vitest"
import { WorkerEnv } from "@stint/contract/ControlApi"
import { LEASE_TOKEN_HEADER, TakenJob } from "@stint/contract/WorkerProtocol"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import type { Settings, TestEndpoint } from "../TestEndpoint.ts"
import { expectJson, expectProblem } from "../WireClient.ts"
import { make as makeWorker, type WireWorker } from "../WireWorker.ts"

const taken = expectJson(200, TakenJob)

/** A worker with a key that is valid only for its id, like the keys of a pool's workers. */
const ownKeyWorker = Effect.fnUntraced(function*({ call, id }: TestEndpoint, worker: string) {
  const { variables } = yield* Effect.flatMap(
    call(`/api/v1/endpoints/${id}/worker-env?worker=${encodeURIComponent(worker)}`),
    expectJson(200, WorkerEnv)
  )
  return makeWorker(variables, worker)
})

/** Takes a job as Stint's SDK does. */
const takeWithToken = (worker: WireWorker) =>
  Effect.flatMap(
    worker.call(`${worker.addresses.take}&job_in_progress=1`, { headers: { [LEASE_TOKEN_HEADER]: "1" } }),
    taken
  )

const make = Effect.fnUntraced(function*(settings?: Settings) {
  const endpoint = yield* (yield* ServerTest).endpoint(settings)
  return { endpoint, w1: yield* endpoint.worker("w1"), w2: yield* endpoint.worker("w2") }
})

/** Every write to a job that the worker protocol has, as a call that must succeed for the job's worker. */
const writes = (job: string) =>
  [
    ["job-stream", ({ addresses, call }: WireWorker, query: string) =>
      call(`${addresses.stream(job)}&isStream=false${query}`, { json: { output: "chunk" } })],
    ["progress", ({ addresses, call }: WireWorker, query: string) =>
      call(`${addresses.done(job)}&isStream=false${query}`, { json: { status: "IN_PROGRESS", output: 50 } })],
    ["job-done", ({ addresses, call }: WireWorker, query: string) =>
      call(`${addresses.done(job)}&isStream=true${query}`, { json: { output: "result" } })]
  ] as const

const keys = (it: ServerIt) => {
  it.effect("a worker's own key is valid for that worker id in every operation, and for no other id", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* make()
      // The server splits the id at `&` before it decodes it (docs/spec/worker-protocol.md#appended-queries).
      for (const id of ["w1", "w&1 ü"]) {
        const own = yield* ownKeyWorker(endpoint, id)
        const other = makeWorker(yield* endpoint.env, `${id}x`)
        const { id: job } = yield* endpoint.run({})
        yield* endpoint.run({})
        const calls = ({ addresses }: WireWorker): ReadonlyArray<readonly [url: string, json?: unknown]> => [
          [addresses.take],
          [addresses.takeBatch],
          [`${addresses.take.replace("?gpu=none", "")}&job_in_progress=1`],
          [addresses.stop],
          [addresses.ping],
          [addresses.stream(job), { output: 1 }],
          [addresses.done(job), { output: 1 }],
          [addresses.doneBatch, [{ id: job, output: 1 }]]
        ]
        for (const [url, json] of calls(own)) {
          const answer = yield* own.call(url, json === undefined ? {} : { json })
          expect([200, 204], `${url}: ${answer.text}`).toContain(answer.status)
        }
        for (const [url, json] of calls(other)) {
          const answer = yield* own.call(url, json === undefined ? {} : { json })
          const problem = yield* expectProblem(403)(answer)
          expect(problem.error, url).toContain("another worker")
        }
        expect((yield* own.call(own.addresses.ping.replace(endpoint.id, `${endpoint.id}x`))).status).toBe(403)
      }
    }))

  it.effect("the key of the endpoint stays valid for every worker id, because existing workers share it", () =>
    Effect.gen(function*() {
      const { endpoint, w1, w2 } = yield* make()
      expect(w1.key).toBe(w2.key)
      expect((yield* ownKeyWorker(endpoint, "w1")).key).not.toBe(w1.key)
      for (const worker of [w1, w2]) expect((yield* worker.call(worker.addresses.ping)).status).toBe(200)
    }))

  it.effect("a worker with its own key needs no lease token, even when the endpoint requires one", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* make({ leaseToken: "required" })
      const worker = yield* ownKeyWorker(endpoint, "w1")
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.ping([id])
      for (const [name, write] of writes(id)) expect((yield* write(worker, "")).status, name).toBe(200)
      expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED" })
      // It may also return a job that it no longer holds.
      const { id: dropped } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.call(`${worker.addresses.ping}&status=exiting`)
      expect(yield* endpoint.status(dropped)).toMatchObject({ status: "IN_QUEUE" })
    }))
}

const tokens = (it: ServerIt) => {
  it.effect("a job that is taken with the header has a lease token; other responses do not change", () =>
    Effect.gen(function*() {
      const { endpoint, w1, w2 } = yield* make()
      for (let at = 0; at < 4; at += 1) yield* endpoint.run(at)
      const plain = yield* w1.call(w1.addresses.take)
      expect(Object.keys(JSON.parse(plain.text))).toEqual(["id", "input", "delayTime", "attempt"])
      const first = yield* takeWithToken(w1)
      const second = yield* takeWithToken(w2)
      expect(first.leaseToken).toMatch(/^1\.[\w-]{22}$/)
      expect(second.leaseToken).not.toBe(first.leaseToken)
      const [batched] = yield* Effect.flatMap(
        w1.call(w1.addresses.takeBatch, { headers: { [LEASE_TOKEN_HEADER]: "1" } }),
        (answer) => Effect.succeed(JSON.parse(answer.text))
      )
      expect(batched.leaseToken).toMatch(/^1\.[\w-]{22}$/)
    }))

  it.effect("no worker can finish, stream to or report progress of a job that another worker took with a token", () =>
    Effect.gen(function*() {
      const { endpoint, w1, w2 } = yield* make()
      const { id } = yield* endpoint.run({})
      yield* endpoint.run({})
      const { leaseToken = "" } = yield* takeWithToken(w1)
      const { leaseToken: own = "" } = yield* takeWithToken(w2)
      const [attempt, mac = ""] = leaseToken.split(".")
      const forged = [
        "",
        "&attempt=1",
        "&lease_token=",
        `&lease_token=${own}`,
        `&lease_token=2.${mac}`,
        `&lease_token=${mac}`,
        `&lease_token=${attempt}.${mac.slice(0, -1)}`,
        `&lease_token=${attempt}.${mac.slice(0, -1)}${mac.endsWith("A") ? "B" : "A"}`,
        `&lease_token=${leaseToken}&attempt=2`
      ]
      // Worker 2 writes under the name of worker 1: both have the key of the endpoint.
      for (const [name, write] of writes(id)) {
        for (const query of forged) {
          const problem = yield* Effect.flatMap(write(w1, query), expectProblem(409))
          expect(problem.error, `${name} ${query}`).toMatch(/lease token/)
        }
        // Worker 2 cannot write under its own name with the token of worker 1 either.
        yield* Effect.flatMap(write(w2, `&lease_token=${leaseToken}`), expectProblem(409))
      }
      expect(yield* endpoint.status(id)).toMatchObject({ status: "IN_PROGRESS" })
      expect(yield* endpoint.status(id)).not.toHaveProperty("output")
      for (const [name, write] of writes(id)) {
        expect((yield* write(w1, `&lease_token=${leaseToken}`)).status, name).toBe(200)
      }
      expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED", output: "result" })
      // A repeated result is accepted as before.
      expect((yield* w1.call(`${w1.addresses.done(id)}&lease_token=${leaseToken}`, { json: { output: 2 } })).status).toBe(200)
      expect(yield* endpoint.status(id)).toMatchObject({ output: "result" })
    }))

  it.effect("a token is valid for one take only", () =>
    Effect.gen(function*() {
      const { endpoint, w1 } = yield* make()
      const { id } = yield* endpoint.run({})
      const first = yield* takeWithToken(w1)
      const own = yield* ownKeyWorker(endpoint, "w1")
      yield* own.call(`${own.addresses.take}&job_in_progress=0`)
      const second = yield* endpoint.status(id)
      expect(second).toMatchObject({ status: "IN_PROGRESS", retries: 1 })
      const late = yield* w1.call(`${w1.addresses.done(id)}&lease_token=${first.leaseToken}`, { json: { output: "late" } })
      expect(late.status).toBe(409)
      expect(yield* endpoint.status(id)).toMatchObject({ status: "IN_PROGRESS" })
    }))

  it.effect("no worker can return, lose or extend the jobs that another worker took with a token", () =>
    Effect.gen(function*() {
      const { endpoint, w1 } = yield* make({ leaseMs: 3_600_000 })
      const { id } = yield* endpoint.run({})
      const { leaseToken } = yield* takeWithToken(w1)
      const attempts = [
        `${w1.addresses.ping}&status=exiting`,
        `${w1.addresses.ping}&status=exiting&job_id=${id}`,
        `${w1.addresses.take}&job_in_progress=0`,
        `${w1.addresses.takeBatch}&job_in_progress=0`
      ]
      for (const url of attempts) {
        expect([200, 204]).toContain((yield* w1.call(url)).status)
        expect(yield* endpoint.status(id), url).toMatchObject({ status: "IN_PROGRESS" })
      }
      yield* w1.call(`${w1.addresses.ping}&job_id=${id}`)
      // A heartbeat without the token does not stop a handler either.
      expect(yield* w1.stops).toEqual([])
      expect((yield* w1.call(`${w1.addresses.done(id)}&lease_token=${leaseToken}`, { json: { output: 1 } })).status).toBe(200)
    }))

  it.effect("a heartbeat extends the leases of the jobs whose tokens it contains, in both forms", () =>
    Effect.gen(function*() {
      const { endpoint, w1 } = yield* make({
        source: { type: "handler", file: "/srv/handler.ts" },
        leaseMs: 1_000,
        maxAttempts: 1
      })
      const ids = yield* Effect.forEach([1, 2, 3], () => Effect.map(endpoint.run({}), ({ id }) => id))
      const held = new Map<string, string>()
      for (const _ of ids) {
        const job = yield* takeWithToken(w1)
        held.set(job.id, job.leaseToken ?? "")
      }
      const [one = "", two = "", three = ""] = ids
      const token = (id: string) => held.get(id) ?? ""
      const ping = w1.addresses.ping
      const beat = Effect.gen(function*() {
        yield* w1.call(`${ping}&job_id=${one},${three}&lease_token=${token(one)},${token(two)}`)
        yield* w1.call(ping, { json: { job_id: [three, two], lease_token: ["", token(two)] } })
        yield* Effect.sleep(100)
      })
      yield* Effect.raceFirst(Effect.forever(beat), endpoint.until(three, ({ status }) => status === "FAILED"))
      expect(yield* endpoint.status(one)).toMatchObject({ status: "IN_PROGRESS" })
      expect(yield* endpoint.status(two)).toMatchObject({ status: "IN_PROGRESS" })
    }))

  it.effect("an endpoint that requires tokens refuses writes without one, and says what to change", () =>
    Effect.gen(function*() {
      const { endpoint, w1 } = yield* make({ leaseToken: "required" })
      const { id } = yield* endpoint.run({})
      // Like other SDKs, the worker does not announce that it sends tokens.
      const { leaseToken } = yield* w1.next
      for (const [name, write] of writes(id)) {
        const problem = yield* Effect.flatMap(write(w1, "&attempt=1"), expectProblem(409))
        expect(problem.error, name).toContain("no lease token")
        expect(problem.hint).toContain("\"optional\"")
      }
      for (const [, write] of writes(id)) expect((yield* write(w1, `&lease_token=${leaseToken}`)).status).toBe(200)
    }))

  it.effect("a worker with another SDK sends no tokens and works as before, next to a worker that sends them", () =>
    Effect.gen(function*() {
      const { endpoint, w1, w2 } = yield* make()
      const first = yield* endpoint.run({})
      const second = yield* endpoint.run({})
      const { leaseToken } = yield* takeWithToken(w1)
      expect((yield* w2.next).id).toBe(second.id)
      yield* w2.ping([second.id])
      yield* w2.stream(second.id, ["a"])
      yield* w2.finish(second.id, "foreign")
      yield* w1.call(`${w1.addresses.done(first.id)}&lease_token=${leaseToken}`, { json: { output: "ours" } })
      expect(yield* endpoint.status(first.id)).toMatchObject({ output: "ours" })
      expect(yield* endpoint.status(second.id)).toMatchObject({ output: "foreign" })
      // Such a worker's exit notice and `job_in_progress=0` also work as before.
      const third = yield* endpoint.run({})
      yield* w2.next
      yield* w2.call(`${w2.addresses.ping}&status=exiting`)
      expect(yield* endpoint.status(third.id)).toMatchObject({ status: "IN_QUEUE" })
    }))
}

/** Registers the tests. */
export const workerIdentity = (it: ServerIt): void => {
  keys(it)
  tokens(it)
}
