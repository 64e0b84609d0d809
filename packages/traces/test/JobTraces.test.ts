import { describe, expect, it } from "@effect/vitest"
import type { FinishedSpan } from "@stint/otel/SpanExport"
import * as JobQueue from "@stint/queue/JobQueue"
import * as RunQueue from "@stint/queue/RunQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { RunScenario, Scenario } from "@stint/store-testing"
import type { EndpointStore } from "@stint/store/EndpointStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as JobTraces from "../src/JobTraces.ts"
import { samplerOf } from "../src/TraceIds.ts"

const TRACE = "0af7651916cd43dd8448eb211c80319c"
const CALLER = "b7ad6b7169203331"
const trace = { traceparent: `00-${TRACE}-${CALLER}-01`, tracestate: "vendor=1" }

/** The spans of a platform over a memory store, and the number of lost spans. */
class Recorder {
  readonly spans: Array<FinishedSpan> = []
  lost = 0
  readonly export = {
    add: (span: FinishedSpan) => void this.spans.push(span),
    lose: (count: number) => {
      this.lost += count
    }
  }

  named(name: string): FinishedSpan {
    const span = this.spans.find((one) => one.name === name)
    if (span === undefined) throw new Error(`no span ${name} among ${this.spans.map((one) => one.name).join(", ")}`)
    return span
  }

  all(name: string): ReadonlyArray<FinishedSpan> {
    return this.spans.filter((one) => one.name === name)
  }
}

const stores = Layer.merge(MemoryJobStore.layerWithEndpoints, WorkerRegistry.layer)

/** A queue over traced stores. `always_on` unless another sampler is given. */
const traced = (
  recorder: Recorder,
  settings: Parameters<typeof samplerOf>[0] = { sampler: "parentbased_always_on", ratio: 1 }
) =>
  RunQueue.layer.pipe(
    Layer.provideMerge(JobQueue.layer),
    Layer.provideMerge(JobTraces.layer(recorder.export, samplerOf(settings)))
  )

const run = <A, E>(
  body: (
    recorder: Recorder
  ) => Effect.Effect<A, E, JobQueue.JobQueue | RunQueue.RunQueue | WorkerRegistry.WorkerRegistry | EndpointStore>,
  settings?: Parameters<typeof samplerOf>[0]
) =>
  Effect.suspend(() => {
    const recorder = new Recorder()
    return body(recorder).pipe(Effect.provide(traced(recorder, settings).pipe(Layer.provideMerge(stores))))
  })

describe("the trace of a job", () => {
  it.effect("is a tree of a submission, waits and attempts below the caller's span", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const { fail, finish, submit, takeOne } = yield* Scenario.make({ retry: { maxAttempts: 2, onError: true } })
        const { id } = yield* submit({ trace })
        yield* Scenario.pass(100)
        const first = yield* takeOne("ann")
        yield* Scenario.pass(50)
        yield* fail(first, JSON.stringify({ error_type: "RangeError", error_message: "too far", error_traceback: "..." }))
        yield* Scenario.pass(20)
        const second = yield* takeOne("bob")
        yield* Scenario.pass(30)
        yield* finish(second)
        yield* Scenario.settle

        const endpoint = first.endpoint
        const send = recorder.named(`send ${endpoint}`)
        const [wait1, wait2] = recorder.all(`wait ${endpoint}`)
        const [attempt1, attempt2] = recorder.all(`attempt ${endpoint}`)
        expect(recorder.spans).toHaveLength(5)
        expect(recorder.spans.map(({ traceId, traceState }) => [traceId, traceState])).toEqual(
          recorder.spans.map(() => [TRACE, "vendor=1"])
        )
        expect(send).toMatchObject({ kind: "producer", parentSpanId: CALLER, error: undefined })
        expect(send.attributes).toMatchObject({
          "messaging.system": "stint",
          "messaging.operation.type": "send",
          "messaging.destination.name": endpoint,
          "messaging.message.id": id
        })
        for (const span of [wait1, wait2, attempt1, attempt2]) expect(span?.parentSpanId).toBe(send.spanId)
        const times = [wait1, attempt1, wait2, attempt2].map((span) => [span?.start, span?.end])
        expect(times).toEqual([[0, 100], [100, 150], [150, 170], [170, 200]])
        expect(first.traceparent).toBe(`00-${TRACE}-${attempt1?.spanId}-01`)
        expect(second.traceparent).toBe(`00-${TRACE}-${attempt2?.spanId}-01`)
        expect(second.tracestate).toBe("vendor=1")
        expect(attempt1).toMatchObject({ links: [], error: { type: "RangeError", message: "too far" } })
        expect(attempt1?.attributes).toMatchObject({ "stint.attempt.outcome": "retried", "stint.worker.id": "ann" })
        expect(attempt2).toMatchObject({ links: [attempt1?.spanId], error: undefined })
        expect(attempt2?.attributes).toMatchObject({ "stint.attempt.outcome": "completed", "stint.job.attempt": 2 })
        expect(new Set(recorder.spans.map(({ spanId }) => spanId)).size).toBe(5)
      })
    ))

  it.effect("shows a job that was cancelled in the queue", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const { endpoint, queue, submit } = yield* Scenario.make()
        const { id } = yield* submit({ trace })
        yield* Scenario.pass(40)
        yield* queue.cancel(endpoint.id, id)
        yield* Scenario.settle
        expect(recorder.spans.map(({ name }) => name)).toEqual([`send ${endpoint.id}`, `wait ${endpoint.id}`])
        expect(recorder.named(`wait ${endpoint.id}`)).toMatchObject({
          start: 0,
          end: 40,
          parentSpanId: recorder.named(`send ${endpoint.id}`).spanId,
          attributes: { "stint.job.status": "CANCELLED" },
          error: undefined
        })
      })
    ))

  it.effect("has an id for each wait of a job that timed out in the queue, was retried, and waited again before its first attempt", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const { endpoint, finish, queue, submit, takeOne } = yield* Scenario.make()
        const { id } = yield* submit({ policy: { ttl: 10_000 } })
        for (const _ of [1, 2]) {
          yield* Scenario.pass(11_000)
          yield* queue.tick
          yield* queue.retry(endpoint.id, id)
        }
        yield* finish(yield* takeOne("ann"))
        yield* Scenario.settle
        const waits = recorder.all(`wait ${endpoint.id}`)
        const statuses = waits.map(({ attributes }) => String(attributes["stint.job.status"]))
        expect(statuses.toSorted()).toEqual(["TIMED_OUT", "TIMED_OUT", "undefined"])
        expect(new Set(waits.map(({ spanId }) => spanId)).size).toBe(3)
      })
    ))

  it.effect("shows a job that timed out in the queue, with its reason", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const { endpoint, queue, submit } = yield* Scenario.make()
        yield* submit({ policy: { ttl: 10_000 } })
        yield* Scenario.pass(11_000)
        yield* queue.tick
        yield* Scenario.settle
        const wait = recorder.named(`wait ${endpoint.id}`)
        expect(wait.attributes["stint.job.status"]).toBe("TIMED_OUT")
        expect(wait.error).toEqual({ type: "timeout", message: expect.stringContaining("waiting for a worker") })
        expect(wait.traceId).toBe(recorder.named(`send ${endpoint.id}`).traceId)
        expect(recorder.named(`send ${endpoint.id}`).parentSpanId).toBeUndefined()
      })
    ))

  it.effect("ends an attempt whose worker went silent, and one whose worker returned the job", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const { endpoint, queue, started, takeOne } = yield* Scenario.make({ maxAttempts: 5 })
        const job = yield* started("ann")
        yield* Scenario.pass(20_000)
        yield* queue.tick
        yield* takeOne("bob", { holding: false })
        yield* queue.returnJobs(endpoint.id, "bob", [job.id])
        yield* Scenario.settle
        const [lost, returned] = recorder.all(`attempt ${endpoint.id}`)
        expect(lost?.attributes["stint.attempt.outcome"]).toBe("lease_expired")
        expect(lost?.error).toEqual({ type: "lease_expired", message: expect.stringContaining("was silent") })
        expect(returned).toMatchObject({ attributes: { "stint.attempt.outcome": "returned" }, error: undefined })
      })
    ))

  it.effect("has the same ids after the platform restarts", () =>
    Effect.gen(function*() {
      const before = new Recorder()
      const after = new Recorder()
      const job = yield* Effect.flatMap(Scenario.make(), ({ started }) => started("ann")).pipe(
        Effect.provide(traced(before), { local: true })
      )
      yield* Effect.gen(function*() {
        const { finish } = yield* Scenario.make()
        yield* finish(job)
        yield* Scenario.settle
      }).pipe(Effect.provide(traced(after), { local: true }))
      const attempt = after.named(`attempt ${job.endpoint}`)
      expect(attempt.parentSpanId).toBe(before.named(`send ${job.endpoint}`).spanId)
      expect(attempt.traceId).toBe(before.named(`send ${job.endpoint}`).traceId)
      expect(job.traceparent).toBe(`00-${attempt.traceId}-${attempt.spanId}-01`)
    }).pipe(Effect.provide(stores)))

  it.effect("continues after a manual retry, with new ids for the attempts", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const { endpoint, fail, finish, queue, started, takeOne } = yield* Scenario.make({ maxAttempts: 1 })
        const job = yield* started("ann")
        yield* fail(job, "no")
        yield* queue.retry(endpoint.id, job.id)
        yield* finish(yield* takeOne("ann"))
        yield* Scenario.settle
        const [first, second] = recorder.all(`attempt ${endpoint.id}`)
        expect(first?.error).toEqual({ type: "_OTHER", message: "no" })
        expect(second?.links).toEqual([first?.spanId])
        expect(new Set(recorder.spans.map(({ spanId }) => spanId)).size).toBe(recorder.spans.length)
      })
    ))

  it.effect("includes the start of the worker that the job waited for", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const registry = yield* WorkerRegistry.WorkerRegistry
        const { endpoint, finish, submit, takeOne } = yield* Scenario.make()
        yield* submit()
        yield* Scenario.pass(10)
        yield* registry.starting(endpoint.id, "ann")
        yield* Scenario.pass(40)
        yield* registry.created(endpoint.id, "ann")
        yield* Scenario.pass(260)
        yield* registry.touch(endpoint.id, "ann", "take")
        yield* Scenario.pass(5)
        yield* takeOne("ann")
        yield* submit()
        registry.labelled(endpoint.id, "ann", 3)
        yield* finish(yield* takeOne("ann"))
        yield* Scenario.settle
        expect(recorder.named(`attempt ${endpoint.id}`).attributes).toMatchObject({
          "stint.release": 3,
          "stint.worker.id": "ann"
        })
        const starts = recorder.all(`cold start ${endpoint.id}`)
        expect(starts).toHaveLength(1)
        expect(starts[0]).toMatchObject({ start: 10, end: 310, parentSpanId: recorder.named(`wait ${endpoint.id}`).spanId })
        expect(recorder.named("create worker")).toMatchObject({ start: 10, end: 50, parentSpanId: starts[0]?.spanId })
        expect(recorder.named("start worker")).toMatchObject({ start: 50, end: 310, parentSpanId: starts[0]?.spanId })
      })
    ))

  it.effect("shows the pull of the worker's image as a part of its start", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const registry = yield* WorkerRegistry.WorkerRegistry
        const { endpoint, finish, submit, takeOne } = yield* Scenario.make()
        yield* submit()
        yield* registry.starting(endpoint.id, "ann")
        registry.pulling(endpoint.id, "ann", "a:1", () => ({ layers: 0, doneLayers: 0, bytes: 0, doneBytes: 0 }))
        yield* Scenario.pass(4_000)
        registry.pulled(endpoint.id, "ann")
        yield* Scenario.pass(200)
        yield* registry.created(endpoint.id, "ann")
        yield* Scenario.pass(90)
        yield* registry.touch(endpoint.id, "ann", "take")
        yield* finish(yield* takeOne("ann"))
        yield* Scenario.settle
        const parent = recorder.named(`cold start ${endpoint.id}`)
        expect(parent).toMatchObject({ start: 0, end: 4_290 })
        expect(recorder.named("pull image")).toMatchObject({ start: 0, end: 4_000, parentSpanId: parent.spanId })
        expect(recorder.named("create worker")).toMatchObject({ start: 4_000, end: 4_200, parentSpanId: parent.spanId })
      })
    ))

  it.effect("shows the worker's setup as a part of its start", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const registry = yield* WorkerRegistry.WorkerRegistry
        const { endpoint, finish, submit, takeOne } = yield* Scenario.make()
        yield* submit()
        yield* registry.starting(endpoint.id, "ann")
        yield* Scenario.pass(10)
        yield* registry.created(endpoint.id, "ann")
        yield* Scenario.pass(90)
        yield* registry.settingUp(endpoint.id, "ann", 60_000)
        yield* Scenario.pass(3_000)
        yield* registry.touch(endpoint.id, "ann", "take")
        yield* finish(yield* takeOne("ann"))
        yield* Scenario.settle
        const parent = recorder.named(`cold start ${endpoint.id}`)
        expect(parent).toMatchObject({ start: 0, end: 3_100 })
        expect(recorder.named("start worker")).toMatchObject({ start: 10, end: 100, parentSpanId: parent.spanId })
        expect(recorder.named("setup worker")).toMatchObject({ start: 100, end: 3_100, parentSpanId: parent.spanId })
      })
    ))

  it.effect("names the model that a request to the OpenAI route asks for", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const { endpoint, submit } = yield* Scenario.make()
        const input = { openai_route: "/v1/chat/completions", openai_input: { model: "small", messages: [] } }
        yield* submit({ input: Scenario.text(input) })
        expect(recorder.named(`send ${endpoint.id}`).attributes).toMatchObject({
          "gen_ai.operation.name": "chat",
          "gen_ai.request.model": "small"
        })
      })
    ))
})

describe("the trace of a pipeline's run", () => {
  const { finish, park, spawn, start } = RunScenario

  it.effect("contains its children, and one attempt for each time that a worker held it", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const { children, pipeline, write } = yield* RunScenario.make
        yield* pipeline.submit({ trace })
        yield* Scenario.pass(100)
        const first = yield* pipeline.takeOne("ann")
        yield* Scenario.pass(10)
        yield* write(first, { ...start, records: [spawn()] })
        // The response was lost.
        yield* write(first, { records: [spawn()] })
        yield* Scenario.pass(40)
        yield* write(first, park(1))
        yield* Scenario.pass(20)
        const child = yield* children.takeOne("bob")
        yield* Scenario.pass(30)
        yield* children.finish(child)
        yield* Scenario.pass(20)
        const second = yield* pipeline.takeOne("ann")
        yield* Scenario.pass(30)
        yield* write(second, { ...start, ...finish() })
        yield* write(second, finish())
        yield* Scenario.settle

        const [attempt1, attempt2] = recorder.all("attempt letters")
        const [wait1, wait2] = recorder.all("wait letters")
        const send = recorder.named("send letters")
        const childSend = recorder.named("send stamps")
        expect(recorder.spans.map(({ name }) => name).toSorted()).toEqual([
          "attempt letters",
          "attempt letters",
          "attempt stamps",
          "send letters",
          "send stamps",
          "wait letters",
          "wait letters",
          "wait stamps"
        ])
        expect(recorder.spans.map(({ traceId, traceState }) => [traceId, traceState])).toEqual(
          recorder.spans.map(() => [TRACE, "vendor=1"])
        )
        expect(send.parentSpanId).toBe(CALLER)
        for (const span of [wait1, wait2, attempt1, attempt2]) expect(span?.parentSpanId).toBe(send.spanId)
        expect(childSend).toMatchObject({ kind: "producer", parentSpanId: attempt1?.spanId, start: 110 })
        expect(recorder.named("wait stamps").parentSpanId).toBe(childSend.spanId)
        expect(recorder.named("attempt stamps").parentSpanId).toBe(childSend.spanId)
        expect(child.traceparent).toBe(`00-${TRACE}-${recorder.named("attempt stamps").spanId}-01`)
        const times = [wait1, attempt1, wait2, attempt2].map((span) => [span?.start, span?.end])
        expect(times).toEqual([[0, 100], [100, 150], [200, 220], [220, 250]])
        expect(attempt1).toMatchObject({ links: [], error: undefined })
        expect(attempt1?.attributes).toMatchObject({ "stint.attempt.outcome": "parked", "stint.job.status": "IN_PROGRESS" })
        expect(attempt2?.links).toEqual([attempt1?.spanId])
        expect(attempt2?.attributes).toMatchObject({ "stint.attempt.outcome": "completed", "stint.job.attempt": 2 })
        expect(new Set(recorder.spans.map(({ spanId }) => spanId)).size).toBe(8)
      })
    ))

  it.effect("has the error of a run that fails, and the end of the child that is cancelled with it", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const { pipeline, write } = yield* RunScenario.make
        const job = yield* pipeline.started("ann")
        yield* write(job, { ...start, records: [spawn()] })
        yield* write(job, finish(JSON.stringify({ error_type: "RangeError", error_message: "too far", error_traceback: "..." })))
        yield* Scenario.settle
        expect(recorder.named("attempt letters")).toMatchObject({
          error: { type: "RangeError", message: "too far" },
          attributes: { "stint.attempt.outcome": "failed", "stint.job.status": "FAILED" }
        })
        const wait = recorder.named("wait stamps")
        expect(wait).toMatchObject({ error: undefined, attributes: { "stint.job.status": "CANCELLED" } })
        expect(wait.parentSpanId).toBe(recorder.named("send stamps").spanId)
        expect(recorder.named("send stamps").traceId).toBe(recorder.named("send letters").traceId)
      })
    ))

  it.effect("has no attempt while the run is parked: neither when a timer wakes it, nor when it is cancelled", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const { pipeline, write } = yield* RunScenario.make
        const job = yield* pipeline.started("ann")
        yield* write(job, { ...start, records: [{ kind: "sleep", path: "nap", ms: 5_000 }], ...park(1) })
        yield* Scenario.pass(5_000)
        yield* pipeline.queue.tick
        const again = yield* pipeline.takeOne("ann")
        yield* write(again, { ...start, records: [{ kind: "sleep", path: "rest", ms: 60_000 }], ...park(3) })
        yield* Scenario.pass(1_000)
        yield* pipeline.queue.cancel(pipeline.endpoint.id, job.id)
        yield* Scenario.settle
        const outcomes = recorder.all("attempt letters").map(({ attributes }) => attributes["stint.attempt.outcome"])
        expect(outcomes).toEqual(["parked", "parked"])
        const last = recorder.all("wait letters").at(-1)
        expect(last).toMatchObject({ start: 6_000, end: 6_000, attributes: { "stint.job.status": "CANCELLED" } })
        expect(new Set(recorder.spans.map(({ spanId }) => spanId)).size).toBe(recorder.spans.length)
      })
    ))

  it.effect("is not recorded for a child whose run is not recorded, but the child's worker gets the trace", () =>
    Effect.gen(function*() {
      const traceparent = `00-${TRACE}-${CALLER}-00`
      const childWith = (recorder: Recorder, options: Parameters<Scenario.Scenario["submit"]>[0]) =>
        Effect.gen(function*() {
          const { children, pipeline, write } = yield* RunScenario.make
          yield* pipeline.submit(options)
          const job = yield* pipeline.takeOne("ann")
          yield* write(job, { ...start, records: [spawn()] })
          const child = yield* children.takeOne("bob")
          yield* children.finish(child)
          yield* write(job, finish())
          yield* Scenario.settle
          expect(recorder.spans).toEqual([])
          return { child: child.traceparent, run: job.traceparent }
        })
      expect(yield* run((recorder) => childWith(recorder, { trace: { traceparent } }))).toEqual({
        child: traceparent,
        run: traceparent
      })
      const own = yield* run((recorder) => childWith(recorder, {}), { sampler: "parentbased_always_off", ratio: 1 })
      expect(own.child?.slice(0, 36)).toBe(own.run?.slice(0, 36))
      expect(own.child).toMatch(/-00$/)
    }))
})

describe("sampling", () => {
  it.effect("records nothing when the caller does not, but passes the caller's span to the worker", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const { finish, submit, takeOne } = yield* Scenario.make()
        const traceparent = `00-${TRACE}-${CALLER}-00`
        yield* submit({ trace: { traceparent } })
        const job = yield* takeOne("ann")
        expect(job.traceparent).toBe(traceparent)
        yield* finish(job)
        yield* Scenario.settle
        expect(recorder.spans).toEqual([])
        expect(recorder.lost).toBe(0)
      })
    ))

  it.effect("makes the worker follow the platform when there is no caller", () =>
    run((recorder) =>
      Effect.gen(function*() {
        const { started } = yield* Scenario.make()
        expect((yield* started("ann")).traceparent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-00$/)
        expect(recorder.spans).toEqual([])
      }), { sampler: "parentbased_always_off", ratio: 1 }))

  it("samples the share of traces that the ratio specifies", () => {
    const sample = samplerOf({ sampler: "parentbased_traceidratio", ratio: 0.25 })
    const ids = Array.from(
      { length: 1_000 },
      (_, n) => `${"0".repeat(24)}${Math.floor(n / 1_000 * 2 ** 32).toString(16).padStart(8, "0")}`
    )
    expect(ids.filter((id) => sample(id, undefined))).toHaveLength(250)
    expect(sample(ids[999] ?? "", true)).toBe(true)
    expect(sample(ids[0] ?? "", false)).toBe(false)
  })
})
