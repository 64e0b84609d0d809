/**
 * Tests run-journal (docs/spec/pipelines.md#run-journal).
 */
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { graph, HASH, make } from "../runs/TestPipeline.ts"
import type { ServerIt } from "../ServerIt.ts"
import { expectProblem } from "../WireClient.ts"

/** Registers the tests. */
export const runJournals = (it: ServerIt): void => {
  it.effect("run-journal: stores each record of a run once, and ends the run with the last record", () =>
    Effect.gen(function*() {
      const { id, journal, pipeline } = yield* make
      expect(yield* journal({ start: { definition: HASH } })).toMatchObject({ state: "running", definition: "unknown", n: 0 })
      const begun = { start: { definition: HASH }, records: [{ path: "write", kind: "step", body: { text: "grüße" } }] }
      expect(yield* journal(begun, { definitions: [{ hash: HASH, graph }] })).toMatchObject({
        state: "running",
        n: 1,
        entries: []
      })
      expect(yield* journal(begun)).toMatchObject({
        n: 1,
        entries: [{ path: "write", kind: "step", n: 1, body: { text: "grüße" } }]
      })
      const last = yield* journal({ records: [{ path: "post", kind: "step" }], finish: { output: { pages: 2 } }, after: 1 })
      expect(last).toMatchObject({ state: "ended", n: 2, entries: [{ path: "post", kind: "step", n: 2 }] })
      expect(yield* pipeline.status(id)).toMatchObject({ status: "COMPLETED", output: { pages: 2 } })
      expect(yield* journal({ finish: {} })).toMatchObject({ state: "ended" })
    }))

  it.effect("run-journal: refuses a worker that does not hold the run, and stores nothing from it", () =>
    Effect.gen(function*() {
      const { journal, start } = yield* make
      yield* start()
      const records = [{ path: "write", kind: "step" }]
      expect(yield* journal({ records }, {}, "another")).toMatchObject({
        state: "lost",
        cause: expect.stringContaining("another")
      })
      expect(yield* journal({ records, attempt: 2 })).toMatchObject({ state: "lost" })
      expect(yield* journal({ after: 0 })).toMatchObject({ state: "running", n: 0, entries: [] })
    }))

  it.effect("run-journal: starts a child, parks, and gives the child's output to the next activation", () =>
    Effect.gen(function*() {
      const { children, id, journal, pipeline, start, worker } = yield* make
      yield* start()
      const spawn = { path: "stamp", kind: "spawn", body: { endpoint: children.id, input: { letter: 7 } } }
      expect(yield* journal({ records: [spawn], park: { seen: 1 } })).toMatchObject({ state: "parked", n: 1 })
      expect(yield* pipeline.status(id)).toMatchObject({ status: "IN_PROGRESS" })
      expect((yield* pipeline.health).jobs).toMatchObject({ inProgress: 0, inQueue: 0 })
      const stamper = yield* children.worker()
      const child = yield* stamper.next
      expect(child).toMatchObject({ id: expect.stringMatching(/^step-/), input: { letter: 7 } })
      yield* stamper.finish(child.id, { stamped: true })
      expect(yield* worker.next).toMatchObject({ id, attempt: 2 })
      const resumed = yield* journal({ attempt: 2, start: { definition: HASH }, after: 0 })
      expect(resumed.entries).toMatchObject([
        { path: "stamp", kind: "spawn", body: { endpoint: children.id, job: child.id } },
        { path: "stamp", kind: "end", body: { status: "COMPLETED", job: child.id, output: { stamped: true } } }
      ])
    }))

  it.effect("run-journal: returns the outputs of children in parts of bounded size, and always returns the request's own records", () =>
    Effect.gen(function*() {
      const { children, journal, start } = yield* make
      yield* start()
      const stamper = yield* children.worker()
      const output = "x".repeat(12 * 1024 * 1024)
      for (const at of [0, 1, 2]) {
        yield* journal({ records: [{ path: `stamp[${at}]`, kind: "spawn", body: { endpoint: children.id, input: at } }] })
        yield* stamper.finish((yield* stamper.next).id, output)
      }
      const wait = { path: "approved", kind: "wait", body: { name: "approved", key: "" } }
      const first = yield* journal({ records: [wait], after: 0 })
      expect(first).toMatchObject({ n: 7, more: true, upTo: 5 })
      expect(first.entries.map(({ n }) => n)).toEqual([1, 2, 3, 4, 5, 7])
      const second = yield* journal({ after: 5 })
      expect(second).not.toHaveProperty("more")
      expect(second.entries.map(({ n }) => n)).toEqual([6, 7])
      expect(second.entries[0]).toMatchObject({ path: "stamp[2]", kind: "end", body: { output } })
    }))

  it.effect("run-journal: delays the response for a run that would park, until the run's child ends", () =>
    Effect.gen(function*() {
      const { children, journal, start } = yield* make
      yield* start()
      const spawn = { path: "stamp", kind: "spawn", body: { endpoint: children.id, input: {} } }
      const held = yield* Effect.forkChild(journal({ records: [spawn], park: { seen: 1 } }, { waitMs: 30_000 }))
      const stamper = yield* children.worker()
      const child = yield* stamper.next
      yield* stamper.deliver(child.id, { error: "no stamps" })
      expect(yield* Fiber.join(held)).toMatchObject({
        state: "running",
        entries: [{ path: "stamp", kind: "spawn" }, {
          path: "stamp",
          kind: "end",
          body: { status: "FAILED", error: "no stamps" }
        }]
      })
    }))

  it.effect("run-journal: parks the run after the delay, and wakes it when its sleep ends", () =>
    Effect.gen(function*() {
      const { id, journal, start, worker } = yield* make
      yield* start()
      const sleep = { path: "cool", kind: "sleep", body: { ms: 40 } }
      const until = { path: "rest", kind: "sleep", body: { until: 0 } }
      expect(yield* journal({ records: [until], park: { seen: 1 } }, { waitMs: 30_000 })).toMatchObject({
        state: "running",
        entries: [{ path: "rest", kind: "sleep" }, { path: "rest", kind: "end" }]
      })
      expect(yield* journal({ records: [sleep], park: { seen: 3 } })).toMatchObject({ state: "parked" })
      expect(yield* worker.next).toMatchObject({ id, attempt: 2 })
      expect(yield* journal({ attempt: 2, after: 3 })).toMatchObject({ entries: [{ path: "cool", kind: "end" }] })
    }))

  it.effect("run-journal: stores bodies, inputs and outputs as they were sent, whatever their size", () =>
    Effect.gen(function*() {
      const { children, id, journalText, pipeline, start } = yield* make
      yield* start()
      const many = `[${"0,".repeat(20_000)}18446744073709551615]`
      const stamper = yield* children.worker()
      const spawn =
        `{"path": "stamp", "kind": "spawn", "body": {"endpoint": "${children.id}", "input": ${many}, "extra": ${many}}}`
      const records = `[{"path": "write", "kind": "step", "body": ${many}}, ${spawn}]`
      expect(yield* journalText(`"records": ${records}`)).toContain("\"n\":2")
      expect(JSON.stringify((yield* stamper.next).input)).toHaveLength(many.length)
      expect(yield* journalText("\"after\": 0")).toContain(`"path":"write","kind":"step","n":1`)
      expect(yield* journalText("\"after\": 0")).toContain(`"body":${many}`)
      expect(yield* journalText(`"finish": {"output": ${many}}`)).toContain("ended")
      expect(JSON.stringify((yield* pipeline.status(id)).output)).toHaveLength(many.length)
    }))

  it.effect("run-journal: counts lists before it decodes their elements, and bounds what it parses", () =>
    Effect.gen(function*() {
      const { id, post } = yield* make
      const numbers = Array.from({ length: 300_000 }, () => 1)
      const objects = Array.from({ length: 1_000 }, () => ({ run: id, attempt: 1, start: numbers.slice(0, 9_000) }))
      for (
        const [body, wrong] of [
          [{ runs: [], definitions: numbers }, "definitions"],
          [{ runs: numbers }, "runs"],
          [{ runs: [{ run: id, attempt: 1, records: numbers }] }, "runs[0].records"],
          [{ runs: [], definitions: [{ hash: HASH, graph: { name: "a", nodes: numbers } }] }, "definitions[0].graph"],
          [{ runs: objects.slice(0, 20) }, "runs["]
        ] as const
      ) {
        const { detail } = yield* Effect.flatMap(post(body), expectProblem(400))
        expect(detail).toContain(wrong)
        expect(detail.length).toBeLessThan(2_000)
      }
    }))

  it.effect("run-journal: rejects a body that is not a journal with 400, and names the wrong value", () =>
    Effect.gen(function*() {
      const { id, post } = yield* make
      const records = [{ path: "a b", kind: "step" }]
      for (const body of [[], { runs: [{ run: id }] }, { runs: [{ run: id, attempt: 1, records }] }]) {
        yield* Effect.flatMap(post(body), expectProblem(400))
      }
    }))
}
