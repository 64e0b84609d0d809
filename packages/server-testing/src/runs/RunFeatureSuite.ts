/**
 * Tests what the runs of a pipeline share with other jobs: batches, webhooks, the OpenAI route, priorities, tags and quotas
 * (docs/spec/pipelines.md#as-jobs).
 */
import { expect } from "@effect/vitest"
import { Batch, BatchReceipt, BatchResults } from "@stint/contract/Batch"
import { RunJournalResponse } from "@stint/contract/RunJournal"
import type { TakenJob } from "@stint/contract/WorkerProtocol"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type * as Schema from "effect/Schema"
import { ask, chat, dataOf, open } from "../openai/OpenAiCaller.ts"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { type Settings, until } from "../TestEndpoint.ts"
import { expectJson, expectProblem } from "../WireClient.ts"
import { graph, HASH } from "./TestPipeline.ts"

const WAIT = { path: "approve", kind: "wait", body: { name: "approved", key: "" } }

/** A pipeline and its worker. `write` writes to the journal of a run that the worker has taken. */
const make = Effect.fnUntraced(function*(settings: Settings = {}) {
  const server = yield* ServerTest
  const pipeline = yield* server.endpoint(settings)
  const worker = yield* pipeline.worker()
  const write = ({ attempt = 1, id }: Pick<TakenJob, "attempt" | "id">, changes: Readonly<Record<string, Schema.Json>> = {}) =>
    Effect.flatMap(
      worker.call(new URL(pipeline.path(`run-journal/${worker.id}`), worker.addresses.stop).href, {
        json: {
          definitions: [{ hash: HASH, graph }],
          runs: [{ run: id, attempt, start: { definition: HASH }, ...changes }]
        }
      }),
      expectJson(200, RunJournalResponse)
    )
  /** Parks a run, and wakes it with an event. Returns the run as the worker takes it again. */
  const parkAndWake = Effect.fnUntraced(function*(run: TakenJob) {
    expect(yield* write(run, { records: [WAIT], park: { seen: 1 } })).toMatchObject({ runs: [{ state: "parked" }] })
    yield* pipeline.call(pipeline.path("events"), { json: { name: "approved", data: true } })
    const again = yield* worker.next
    expect(again).toMatchObject({ id: run.id, attempt: 2 })
    yield* write(again)
    return again
  })
  return { parkAndWake, pipeline, server, worker, write }
})

const part = (content: string) => ({ object: "chat.completion.chunk", choices: [{ index: 0, delta: { content } }] })

/** Registers the tests. */
export const runFeatures = (it: ServerIt): void => {
  it.effect("batch: runs each request as a run, and contains their outputs", () =>
    Effect.gen(function*() {
      const { parkAndWake, pipeline, worker, write } = yield* make()
      const batch = (rest: string, json?: Schema.Json) =>
        pipeline.call(pipeline.path(`batch${rest}`), json === undefined ? {} : { json })
      const { id } = yield* Effect.flatMap(batch("", [{ input: 1 }, { input: 2 }]), expectJson(200, BatchReceipt))
      yield* pipeline.call(pipeline.path(`batch/${id}/finalize`), { method: "POST" })
      const [first, second] = [yield* worker.next, yield* worker.next]
      yield* write(second, { finish: { output: "second" } })
      // A batch counts a parked run as running.
      yield* write(yield* parkAndWake(first), { finish: { output: "first" } })
      const ended = yield* until(Effect.flatMap(batch(`/${id}`), expectJson(200, Batch)), ({ status }) => status !== "FINALIZED")
      expect(ended).toMatchObject({ status: "COMPLETED", requestCompleted: 2, requestInProgress: 0 })
      const results = yield* Effect.flatMap(batch(`/${id}/requests`), expectJson(200, BatchResults))
      expect(results.requests.map(({ output }) => output)).toEqual(["first", "second"])
    }))

  it.effect("webhook: sends one start and the end of a run", () =>
    Effect.gen(function*() {
      const { parkAndWake, pipeline, worker, write } = yield* make()
      const url = "http://127.0.0.1:9/hook"
      const { id } = yield* pipeline.run(1, { webhook: { url, events: ["start", "completed"] } })
      yield* write(yield* parkAndWake(yield* worker.next), { finish: { output: 2 } })
      const page = yield* pipeline.call(`/api/v1/endpoints/${pipeline.id}/webhooks/deliveries?job=${id}`)
      expect(page.json).toMatchObject({ deliveries: [{ event: "completed" }, { event: "start" }] })
    }))

  it.effect("OpenAI: streams the chunks of a run once, although another activation continues it", () =>
    Effect.gen(function*() {
      const { parkAndWake, pipeline, server, worker, write } = yield* make()
      const opening = yield* Effect.forkChild(open(server, pipeline, chat({ stream: true }).json))
      const run = yield* worker.next
      yield* write(run)
      yield* worker.stream(run.id, [part("Hel")])
      const reading = yield* Fiber.join(opening)
      yield* reading.until((text) => text.includes("Hel"))
      const again = yield* parkAndWake(run)
      yield* worker.stream(run.id, [part("lo")])
      yield* write(again, { finish: { output: "Hello" } })
      expect(dataOf(yield* reading.whole)).toEqual([JSON.stringify(part("Hel")), JSON.stringify(part("lo")), "[DONE]"])
    }))

  it.effect("OpenAI: a run without chunks sends its output as one event, or as the response", () =>
    Effect.gen(function*() {
      const { pipeline, server, worker, write } = yield* make()
      const output = part("whole")
      const opening = yield* Effect.forkChild(open(server, pipeline, chat({ stream: true }).json))
      yield* write(yield* worker.next, { finish: { output } })
      expect(dataOf(yield* (yield* Fiber.join(opening)).whole)).toEqual([JSON.stringify(output), "[DONE]"])
      const asking = yield* Effect.forkChild(ask(pipeline, "chat/completions", chat()))
      yield* write(yield* worker.next, { finish: { output } })
      expect(yield* Fiber.join(asking)).toMatchObject({ status: 200, json: output })
    }))

  it.effect("OpenAI: a run that streams returns a clear error to a caller that did not ask for a stream", () =>
    Effect.gen(function*() {
      const { pipeline, worker, write } = yield* make()
      const asking = yield* Effect.forkChild(ask(pipeline, "chat/completions", chat()))
      const run = yield* worker.next
      yield* write(run)
      yield* worker.stream(run.id, [part("Hel"), part("lo")])
      yield* write(run, { finish: { output: "Hello" } })
      expect(yield* Fiber.join(asking)).toMatchObject({ status: 502, json: { error: { code: "unexpected_stream" } } })
    }))

  it.effect("priority: orders waiting runs, and is the priority of their jobs, up to the limit of the endpoint", () =>
    Effect.gen(function*() {
      const { pipeline, server, worker, write } = yield* make()
      const children = yield* server.endpoint()
      const limited = yield* server.endpoint({ limits: { priority: 10 } })
      yield* pipeline.run("later")
      const { id } = yield* pipeline.run("first", { priority: 40, tags: ["nightly"] })
      const run = yield* worker.next
      expect(run.id).toBe(id)
      const spawn = (path: string, body: Readonly<Record<string, Schema.Json>>) => ({
        path,
        kind: "spawn",
        body: { input: 1, ...body }
      })
      yield* write(run, {
        records: [
          spawn("one", { endpoint: children.id }),
          spawn("two", { endpoint: children.id, priority: -5, tags: ["own"] }),
          spawn("three", { endpoint: limited.id }),
          spawn("four", { endpoint: limited.id, priority: 90 })
        ]
      })
      // The ids of jobs that start together have no order.
      const list = (endpoint: string, ...wanted: ReadonlyArray<Readonly<Record<string, unknown>>>) =>
        Effect.map(
          pipeline.call(`/v2/${endpoint}/requests`),
          ({ json }) =>
            expect(json).toMatchObject({ requests: expect.arrayContaining(wanted.map((one) => expect.objectContaining(one))) })
        )
      yield* list(children.id, { priority: 40, tags: ["nightly"] }, { priority: -5, tags: ["own"] })
      yield* list(limited.id, { priority: 10, tags: ["nightly"] })
      expect(JSON.stringify((yield* pipeline.call(`/v2/${limited.id}/requests`)).json)).not.toContain("\"priority\":90")
    }))

  it.effect("quota: counts waiting runs, and not parked ones", () =>
    Effect.gen(function*() {
      const { pipeline, worker, write } = yield* make({ limits: { waitingJobs: 1 } })
      yield* pipeline.run(1)
      const run = yield* worker.next
      expect(yield* write(run, { records: [WAIT], park: { seen: 1 } })).toMatchObject({ runs: [{ state: "parked" }] })
      yield* pipeline.run(2)
      const refused = yield* Effect.flatMap(pipeline.call(pipeline.path("run"), { json: { input: 3 } }), expectProblem(429))
      expect(refused.hint).toContain("limits.waitingJobs")
    }))
}
