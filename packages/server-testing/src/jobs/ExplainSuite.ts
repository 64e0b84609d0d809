/**
 * Tests `?explain`, which states why a job is in its current state (docs/spec/jobs-api.md#explaining-a-job).
 */
import { expect } from "@effect/vitest"
import type { Explanation } from "@stint/contract/Explanation"
import { ExplainedJob } from "@stint/contract/JobsApi"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import type { TestEndpoint } from "../TestEndpoint.ts"
import { expectJson } from "../WireClient.ts"

const decode = expectJson(200, ExplainedJob)

const why = (endpoint: TestEndpoint, job: string): Effect.Effect<Explanation> =>
  Effect.flatMap(endpoint.call(endpoint.path(`status/${job}?explain`)), decode).pipe(
    Effect.flatMap(({ explain }) => explain === undefined ? Effect.die("no explanation") : Effect.succeed(explain)),
    Effect.orDie
  )

/** Registers the tests for explanations. */
export const explanations = (it: ServerIt): void => {
  it.effect("explain: appears only when requested and leaves the rest of the job unchanged", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const { id } = yield* endpoint.run(1)
      const job = yield* endpoint.status(id)
      for (const query of ["?explain", "?explain=true", "?explain=1", "?explain="]) {
        const { explain, ...rest } = yield* Effect.flatMap(endpoint.call(endpoint.path(`status/${id}${query}`)), decode)
        expect(explain, query).toBeDefined()
        expect(rest).toEqual(job)
      }
      for (const query of ["", "?explain=false", "?explain=0"]) {
        expect((yield* endpoint.call(endpoint.path(`status/${id}${query}`))).json, query).toEqual(job)
      }
      const posted = yield* Effect.flatMap(endpoint.call(endpoint.path(`status/${id}?explain`), { method: "POST" }), decode)
      expect(posted.explain?.reason).toBe("external")
    }))

  it.effect("explain: contains the job's times, and `input` returns what the caller sent, even after the job has ended", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const input = { text: "a\u0000b", list: [1, { deep: null }] }
      const { id } = yield* endpoint.run(input)
      const before = yield* why(endpoint, id)
      expect(before.queuedAt).toBe(before.createdAt)
      expect(before).not.toHaveProperty("startedAt")
      const worker = yield* endpoint.worker()
      yield* worker.next
      yield* worker.finish(id, "done")
      const { createdAt, finishedAt = 0, startedAt = 0 } = yield* why(endpoint, id)
      expect(createdAt).toBe(before.createdAt)
      expect([createdAt, startedAt, finishedAt]).toEqual([createdAt, startedAt, finishedAt].toSorted((a, b) => a - b))
      expect(startedAt).toBeGreaterThan(0)
      const job = yield* endpoint.status(id)
      for (const query of ["?input", "?input=true", "?explain=0&input="]) {
        const { input: sent, ...rest } = yield* Effect.flatMap(endpoint.call(endpoint.path(`status/${id}${query}`)), decode)
        expect(sent, query).toEqual(input)
        expect(rest).toEqual(job)
      }
      const both = yield* Effect.flatMap(endpoint.call(endpoint.path(`status/${id}?explain&input`)), decode)
      expect([both.input, both.explain?.reason]).toEqual([input, "ended"])
      expect(yield* Effect.flatMap(endpoint.call(endpoint.path(`status/${id}?input=false`)), decode)).not.toHaveProperty("input")
    }))

  it.effect("explain, lists and log lines name the release that ran the job, if the platform knows it", () =>
    Effect.gen(function*() {
      const { call, endpoint: make } = yield* ServerTest
      const registry = yield* WorkerRegistry
      const endpoint = yield* make()
      const { id } = yield* endpoint.run(1)
      const worker = yield* endpoint.worker()
      yield* registry.starting(endpoint.endpoint.id, worker.id, 4)
      yield* worker.next
      yield* worker.finish(id, "done")
      expect((yield* why(endpoint, id)).release).toBe(4)
      expect((yield* call(endpoint.path("requests"))).json).toMatchObject({ requests: [{ id, release: 4 }] })
      const { id: other } = yield* endpoint.run(1)
      const external = yield* endpoint.worker("external")
      yield* external.next
      yield* external.finish(other, "done")
      expect(yield* why(endpoint, other)).not.toHaveProperty("release")
    }))

  it.effect("explain: states how to start a worker when an external endpoint has no worker", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const { id } = yield* endpoint.run(1)
      const explain = yield* why(endpoint, id)
      expect(explain).toMatchObject({ reason: "external", position: { place: 1, of: 1, more: false }, workers: { max: null } })
      expect(explain.words).toContain(`stint worker-env ${endpoint.id}`)
    }))

  it.effect("explain: reports the position in the queue and the queue's length, by priority", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const low = yield* endpoint.run(1)
      const mid = yield* endpoint.run(2)
      yield* endpoint.run(3, { priority: 9 })
      expect((yield* why(endpoint, low.id)).position).toEqual({ place: 2, of: 3, more: false })
      const { position, words } = yield* why(endpoint, mid.id)
      expect(position).toEqual({ place: 3, of: 3, more: false })
      expect(words).toContain("2 jobs are ahead of it")
    }))

  it.effect("explain: reports an endpoint with workers.max 0 as paused", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint({
        source: { type: "command", command: ["nothing"] },
        workers: { min: 0, max: 0 }
      })
      const { id } = yield* endpoint.run(1)
      const { reason, words } = yield* why(endpoint, id)
      expect(reason).toBe("paused")
      expect(words).toContain("workers.max is 0")
    }))

  it.effect("explain: reports that all allowed workers are busy", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint({
        source: { type: "command", command: ["nothing"] },
        workers: { min: 0, max: 1 }
      })
      const worker = yield* endpoint.worker()
      const running = yield* endpoint.run(1)
      yield* worker.next
      const { id } = yield* endpoint.run(2)
      const { reason, words, workers } = yield* why(endpoint, id)
      expect([reason, workers.running, workers.max]).toEqual(["behind", 1, 1])
      expect(words).toContain("workers.max")
      const { lease, position, reason: other, words: same } = yield* why(endpoint, running.id)
      expect(other).toBe("running")
      expect(position).toBeUndefined()
      expect(lease).toEqual({ worker: worker.id, attempt: 1, expiresAt: expect.any(Number) })
      expect(same).toContain(worker.id)
    }))

  it.effect("explain: says that the worker of a running job collects jobs, as its heartbeats say", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run(1)
      yield* worker.next
      expect((yield* why(endpoint, id)).words).not.toContain("collects")
      const report = (batch: Readonly<Record<string, number | null>>) =>
        worker.call(worker.addresses.ping, { json: { job_id: [id], ...batch } })
      for (const batch of [{ batch_max: null }, { batch_max: 1 }, { batch_max: -2, batch_wait: -1 }]) {
        expect((yield* report(batch)).status).toBe(200)
        expect((yield* why(endpoint, id)).words, JSON.stringify(batch)).not.toContain("collects")
      }
      yield* report({ batch_max: 32, batch_wait: 20 })
      const { reason, words } = yield* why(endpoint, id)
      expect(reason).toBe("running")
      expect(words).toContain("Its worker collects up to 32 jobs for at most 20 ms")
      yield* report({ batch_max: 32 })
      expect((yield* why(endpoint, id)).words).toContain("Its worker runs up to 32 jobs in one call")
    }))

  it.effect("explain: reports workers that fail to start or have no capacity, with the reason and the time of the next attempt", () =>
    Effect.gen(function*() {
      const registry = yield* WorkerRegistry
      const endpoint = yield* (yield* ServerTest).endpoint({ source: { type: "command", command: ["nothing"] } })
      const { id } = yield* endpoint.run(1)
      expect((yield* why(endpoint, id)).reason).toBe("next")
      const retryAt = Date.now() + 60_000
      yield* registry.failing(
        endpoint.endpoint.id,
        "w",
        "unhealthy",
        "it ended with code 1: Cannot find module './gone.ts'.",
        retryAt
      )
      const failing = yield* why(endpoint, id)
      expect(failing).toMatchObject({ reason: "failing", nextRetryAt: retryAt, workers: { unhealthy: 1 } })
      expect(failing.cause).toContain("gone.ts")
      expect(failing.words).toMatch(/workers fail to start: .*gone\.ts'. The next start is tried in/)
      yield* registry.failing(endpoint.endpoint.id, "w", "throttled", "the host is full")
      const throttled = yield* why(endpoint, id)
      expect([throttled.reason, throttled.workers.throttled]).toEqual(["throttled", 1])
      expect(throttled.words).toContain("the host is full")
      yield* registry.removed(endpoint.endpoint.id, "w")
      yield* registry.starting(endpoint.endpoint.id, "w2")
      expect((yield* why(endpoint, id)).reason).toBe("starting")
    }))

  it.effect("explain: shows the progress of a pull, and has it as a part of the wait", () =>
    Effect.gen(function*() {
      const registry = yield* WorkerRegistry
      const endpoint = yield* (yield* ServerTest).endpoint({ source: { type: "container", image: "acme/whisper:2" } })
      const { id } = yield* endpoint.run(1)
      const worker = yield* endpoint.worker()
      yield* registry.starting(endpoint.endpoint.id, worker.id)
      let doneLayers = 2
      registry.pulling(
        endpoint.endpoint.id,
        worker.id,
        "acme/whisper:2",
        () => ({ layers: 5, doneLayers, bytes: 80_000_000, doneBytes: 12_000_000 })
      )
      const { reason, words } = yield* why(endpoint, id)
      expect(reason).toBe("starting")
      expect(words).toContain("The image acme/whisper:2 is being pulled: 2 of 5 layers, 12 of 80 MB.")
      doneLayers = 3
      expect((yield* why(endpoint, id)).words).toContain("3 of 5 layers")
      registry.pulled(endpoint.endpoint.id, worker.id)
      expect((yield* why(endpoint, id)).words).not.toContain("pulled")
      yield* registry.created(endpoint.endpoint.id, worker.id)
      yield* worker.next
      yield* worker.finish(id, "done")
      const { wait } = yield* why(endpoint, id)
      expect(wait?.words).toContain("ms to pull its image")
    }))

  it.effect("explain: names the concurrency key of a held job and the limit, until a job with that key ends", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint({ concurrency: { key: "input.customer", limit: 1 } })
      const worker = yield* endpoint.worker()
      const first = yield* endpoint.run({ customer: "acme" })
      const held = yield* endpoint.run({ customer: "acme" })
      const other = yield* endpoint.run({ customer: "other" })
      expect(yield* worker.next).toMatchObject({ id: first.id })
      expect(yield* worker.next).toMatchObject({ id: other.id })
      expect(yield* why(endpoint, held.id)).toMatchObject({
        reason: "concurrency",
        concurrency: { key: "acme", limit: 1, running: 1, ready: 0, ahead: 0 },
        words: expect.stringContaining("1 job with key acme is running, the limit is 1.")
      })
      expect((yield* endpoint.health).jobs).toMatchObject({ inQueue: 1, inProgress: 2 })
      yield* worker.finish(first.id, "done")
      expect(yield* worker.next).toMatchObject({ id: held.id })
    }))

  it.effect("explain: reports when a backoff ends and the error of the previous attempt", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run(1, {
        policy: { retry: { maxAttempts: 3, onError: true, backoff: { initialMs: 60_000, factor: 2, maxMs: 60_000 } } }
      })
      yield* worker.next
      yield* worker.deliver(id, { error: "no luck" })
      const explain = yield* why(endpoint, id)
      expect(explain).toMatchObject({ reason: "backoff", cause: "no luck", attempts: { made: 1, most: 3 } })
      expect(explain.nextRetryAt).toBeGreaterThan(Date.now())
      expect(explain.position).toBeUndefined()
      expect(explain.words).toContain("no luck")
    }))

  it.effect("explain: reports an ended job as waiting for nothing", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const { id } = yield* endpoint.run(1)
      yield* endpoint.cancel(id)
      const explain = yield* why(endpoint, id)
      expect(explain.reason).toBe("ended")
      expect(explain.expiresAt).toBeUndefined()
    }))

  it.effect("explain: returns 404 for an unknown job", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      expect((yield* endpoint.call(endpoint.path("status/nope?explain"))).status).toBe(404)
    }))
}
