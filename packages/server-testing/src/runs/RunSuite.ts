/**
 * Tests the operations on runs for callers (docs/spec/pipelines.md#callers).
 */
import { expect } from "@effect/vitest"
import { DefinitionComparison, DefinitionList } from "@stint/contract/Definitions"
import { ExplainedJob } from "@stint/contract/JobsApi"
import { EventReceipt, RunSteps } from "@stint/contract/RunSteps"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { ServerIt } from "../ServerIt.ts"
import type { TestEndpoint } from "../TestEndpoint.ts"
import { expectJson, expectProblem } from "../WireClient.ts"
import { graph, HASH, make } from "./TestPipeline.ts"

const receipt = expectJson(200, EventReceipt)
const stepsOf = (pipeline: TestEndpoint, run: string, query = "") =>
  Effect.flatMap(pipeline.call(pipeline.path(`steps/${run}${query}`)), expectJson(200, RunSteps))
const send = (pipeline: TestEndpoint, json: Schema.Json) => pipeline.call(pipeline.path("events"), { json })

const WAIT = { path: "approve", kind: "wait", body: { name: "approved", key: "7", timeoutMs: 3_600_000 } }

/** Registers the tests. */
export const runCallers = (it: ServerIt): void => {
  it.effect("events: wakes the run that waits for it, with the exact text of its data", () =>
    Effect.gen(function*() {
      const { id, journal, pipeline, start, worker } = yield* make
      yield* start()
      expect(yield* journal({ records: [WAIT], park: { seen: 1 } })).toMatchObject({ state: "parked" })
      const other = yield* Effect.flatMap(send(pipeline, { name: "approved", key: "8" }), receipt)
      expect(other).toEqual({ delivered: null })
      const body = "{\"name\":\"approved\",\"key\":\"7\",\"data\":{\"order\":18446744073709551615}}"
      const sent = yield* Effect.flatMap(pipeline.call(pipeline.path("events"), { method: "POST", body }), receipt)
      expect(sent).toEqual({ delivered: id })
      expect(yield* worker.next).toMatchObject({ id, attempt: 2 })
      expect((yield* pipeline.call(pipeline.path(`steps/${id}`))).text).toContain("\"output\":{\"order\":18446744073709551615}")
    }))

  it.effect("events: keeps an event until a run waits for it, and delivers each event id once", () =>
    Effect.gen(function*() {
      const { journal, pipeline, start } = yield* make
      yield* start()
      const event = { name: "approved", key: "7", data: { by: "Ada" }, id: "approval-17" }
      expect(yield* Effect.flatMap(send(pipeline, event), receipt)).toEqual({ delivered: null })
      expect(yield* Effect.flatMap(send(pipeline, event), receipt)).toEqual({ delivered: null, duplicate: true })
      expect((yield* journal({ records: [WAIT], after: 0 })).entries).toMatchObject([
        { path: "approve", kind: "wait" },
        { path: "approve", kind: "event", body: { by: "Ada" } }
      ])
    }))

  it.effect("events: rejects an event when the endpoint already keeps the maximum, but delivers an event that a run waits for", () =>
    Effect.gen(function*() {
      const { id, journal, pipeline, start } = yield* make
      yield* start()
      yield* journal({ records: [WAIT], park: { seen: 1 } })
      const data = "x".repeat(1_000_000)
      const early = Array.from({ length: 67 }, (_, number) => send(pipeline, { name: "early", key: `${number}`, data }))
      const answers = yield* Effect.all(early, { concurrency: 4 })
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(67)
      const problem = yield* Effect.flatMap(send(pipeline, { name: "early", data }), expectProblem(507))
      expect(problem.error).toContain("10,000 events, or 64 MiB")
      expect(problem.hint).toContain("name and key")
      const waited = yield* Effect.flatMap(send(pipeline, { name: "approved", key: "7", data }), receipt)
      expect(waited).toEqual({ delivered: id })
    }))

  it.effect("events: rejects a body that is not an event or is too large", () =>
    Effect.gen(function*() {
      const { pipeline } = yield* make
      for (const body of [[], {}, { name: "" }, { name: 1 }, { name: "a", key: "k".repeat(256) }, { name: "a", ttlMs: -1 }]) {
        const problem = yield* Effect.flatMap(send(pipeline, body), expectProblem(400))
        expect(problem.hint).toContain("\"name\"")
      }
      const large = yield* Effect.flatMap(send(pipeline, { name: "a", data: "x".repeat(1_100_000) }), expectProblem(413))
      expect(large.hint).toContain("send its URL")
    }))

  it.effect("steps: lists what a run recorded and what it waits for, in pages", () =>
    Effect.gen(function*() {
      const { children, id, journal, pipeline, start } = yield* make
      yield* start()
      yield* journal({
        records: [
          { path: "write", kind: "step", body: { text: "grüße", error: "in the output" }, ms: 800 },
          { path: "charge~1", kind: "failed", body: { error: "card declined" }, ms: 30 },
          { path: "stamp", kind: "spawn", body: { endpoint: children.id, input: {} } },
          { path: "lost", kind: "spawn", body: { endpoint: "no-such-endpoint", input: {} } },
          WAIT
        ],
        park: { seen: 5 }
      })
      const all = yield* stepsOf(pipeline, id)
      expect(all).toMatchObject({ run: id, status: "IN_PROGRESS", phase: "doing", definition: HASH })
      expect(all).not.toHaveProperty("next")
      expect(all.steps).toMatchObject([
        { path: "write", kind: "step", state: "completed", output: { text: "grüße", error: "in the output" } },
        {
          path: "charge",
          kind: "step",
          state: "open",
          attempts: [{ attempt: 1, state: "failed", error: "card declined", startedAt: expect.any(Number) }]
        },
        { path: "stamp", kind: "run", state: "open", endpoint: children.id, job: expect.stringMatching(/^step-/) },
        { path: "lost", kind: "run", state: "failed", error: expect.stringContaining("no-such-endpoint") },
        { path: "approve", kind: "waitFor", state: "open", event: { name: "approved", key: "7" }, until: expect.any(Number) }
      ])
      expect(all.steps[0]).not.toHaveProperty("error")
      // A step that is a function is recorded when it ends.
      expect(all.steps.map(({ endedAt, startedAt }) =>
        endedAt === undefined || startedAt === undefined ? undefined : endedAt - startedAt
      ))
        .toEqual([800, undefined, undefined, undefined, undefined])
      const first = yield* stepsOf(pipeline, id, "?limit=2")
      expect(first).toEqual({ ...all, steps: all.steps.slice(0, 2), next: 2 })
      expect(yield* stepsOf(pipeline, id, "?after=2&limit=3")).toEqual({ ...all, steps: all.steps.slice(2) })
      yield* Effect.flatMap(pipeline.call(pipeline.path(`steps/${id}?limit=0`)), expectProblem(400))
      yield* pipeline.cancel(id)
      expect((yield* stepsOf(pipeline, id)).steps.map(({ state }) =>
        state
      )).not.toContain("open")
    }))

  it.effect("steps: folds the attempts of a step into the step, each with its outcome, error and times", () =>
    Effect.gen(function*() {
      const { children, id, journal, pipeline, start } = yield* make
      const one = Effect.map(stepsOf(pipeline, id), ({ steps }) => steps)
      yield* start()
      yield* journal({
        records: [
          { path: "charge~1", kind: "failed", body: { error: "card declined" }, ms: 30 },
          { path: "charge~2~0", kind: "sleep", body: { ms: 3_600_000 } },
          { path: "stamp", kind: "spawn", body: { endpoint: "no-such-endpoint", input: {} } },
          { path: "stamp~2", kind: "spawn", body: { endpoint: children.id, input: {} } },
          { path: "summary", kind: "choice", body: { chunks: 0 } },
          { path: "write", kind: "step", body: 1 },
          { path: "write~undo~1", kind: "failed", body: { error: "locked" }, ms: 5 },
          WAIT
        ]
      })
      expect(yield* one).toEqual([
        {
          path: "charge",
          kind: "step",
          state: "open",
          startedAt: expect.any(Number),
          nextAttemptAt: expect.any(Number),
          attempts: [{
            attempt: 1,
            state: "failed",
            startedAt: expect.any(Number),
            endedAt: expect.any(Number),
            error: "card declined"
          }]
        },
        {
          path: "stamp",
          kind: "run",
          state: "open",
          startedAt: expect.any(Number),
          endpoint: children.id,
          job: expect.any(String),
          attempts: [
            { attempt: 1, state: "failed", endedAt: expect.any(Number), error: expect.stringContaining("no-such-endpoint") },
            { attempt: 2, state: "open", startedAt: expect.any(Number), job: expect.any(String) }
          ]
        },
        // A stream that has begun.
        { path: "summary", kind: "step", state: "open", startedAt: expect.any(Number) },
        { path: "write", kind: "step", state: "completed", endedAt: expect.any(Number), input: { from: [] }, output: 1 },
        {
          path: "write~undo",
          kind: "undo",
          state: "open",
          startedAt: expect.any(Number),
          input: { from: ["write"] },
          attempts: [{
            attempt: 1,
            state: "failed",
            startedAt: expect.any(Number),
            endedAt: expect.any(Number),
            error: "locked"
          }]
        },
        expect.objectContaining({ path: "approve", state: "open" })
      ])
      yield* journal({
        records: [
          { path: "charge", kind: "step", body: "paid", ms: 20 },
          { path: "write~undo", kind: "undo", ms: 4 },
          { path: "approve~0", kind: "failed", body: { error: "no date" } }
        ],
        finish: { error: "no date" }
      })
      const ended = yield* one
      expect(ended).toMatchObject([
        {
          path: "charge",
          state: "completed",
          output: "paid",
          attempts: [{ attempt: 1, state: "failed" }, { attempt: 2, state: "completed" }]
        },
        { path: "stamp", state: "cancelled", attempts: [{ state: "failed" }, { attempt: 2, state: "cancelled" }] },
        { path: "summary", state: "cancelled" },
        { path: "write", state: "completed" },
        { path: "write~undo", state: "undone", attempts: [{ state: "failed" }, { attempt: 2, state: "completed" }] },
        { path: "approve", state: "failed", error: "no date" }
      ])
      expect(ended[0]).not.toHaveProperty("nextAttemptAt")
      expect(ended[0]).not.toHaveProperty("error")
      // The step began with its first attempt.
      expect(ended[0]?.startedAt).toBe(ended[0]?.attempts?.[0]?.startedAt)
    }))

  it.effect("steps: a step's newest 100 attempts are listed", () =>
    Effect.gen(function*() {
      const { id, journal, pipeline, start } = yield* make
      yield* start()
      const attempts = Array.from({ length: 120 }, (_, index) => ({
        path: `write~${index + 1}`,
        kind: "failed",
        body: { error: `no ${index + 1}` }
      }))
      yield* journal({ records: [...attempts, { path: "write", kind: "failed", body: { error: "no", attempts: 121 } }] })
      const { steps } = yield* stepsOf(pipeline, id)
      expect(steps).toMatchObject([{ path: "write", state: "failed", error: "no" }])
      expect(steps[0]?.attempts?.map(({ attempt }) => attempt)).toEqual(Array.from({ length: 100 }, (_, index) => index + 22))
    }))

  it.effect("steps: contain their inputs: the nodes that they come from, or what the worker recorded, with its exact text", () =>
    Effect.gen(function*() {
      const { id, journal, journalText, pipeline, post } = yield* make
      const nodes = [
        { address: "list", kind: "step" },
        { address: "extras", kind: "all", needs: ["list"] },
        { address: "extras.a.cover", kind: "step", needs: ["extras"] },
        { address: "extras.b.tags", kind: "forEach", needs: ["extras"] },
        { address: "nap", kind: "sleep", needs: ["extras.a.cover", "extras.b.tags"] },
        { address: "page", kind: "step", needs: ["nap"] },
        { address: "post", kind: "step", needs: ["page"] }
      ]
      const hash = "d".repeat(64)
      const step = (path: string, more = "") => `{"path":"${path}","kind":"step","body":1${more}}`
      yield* journal({ start: { definition: hash } }, { definitions: [{ hash, graph: { name: "letters", nodes } }] })
      const records = [
        step("list"),
        step("extras.a.cover"),
        step("extras.b.tags[0]"),
        step("extras.b.tags[1]", ",\"input\":{\"value\":18446744073709551615}"),
        step("page"),
        step("post", ",\"input\":{\"text\":\"[1, 2\"}")
      ]
      yield* journalText(`"records": [${records.join(",")}]`)
      const { text } = yield* pipeline.call(pipeline.path(`steps/${id}`))
      expect(text).toContain("\"input\":{\"value\":18446744073709551615}")
      const { steps } = yield* stepsOf(pipeline, id)
      expect(steps.map(({ input, path }) => [path, input])).toEqual([
        ["list", { from: [] }],
        ["extras.a.cover", { from: ["list"] }],
        ["extras.b.tags[0]", { from: ["list"] }],
        ["extras.b.tags[1]", { value: 18446744073709552000 }],
        ["page", { from: ["extras.a.cover", "extras.b.tags"] }],
        ["post", { text: "[1, 2" }]
      ])
      const refused = (input: Schema.Json) =>
        Effect.flatMap(
          post({ runs: [{ run: id, attempt: 1, records: [{ path: "end", kind: "step", input }] }] }),
          expectProblem(400)
        )
      expect((yield* refused({ text: "x".repeat(4_096) })).error).toContain("at most 4096 characters")
      yield* refused(1)
    }))

  it.effect("steps: distinguishes an unknown run from a job that is not a run", () =>
    Effect.gen(function*() {
      const { id, pipeline } = yield* make
      yield* Effect.flatMap(pipeline.call(pipeline.path("steps/no-such-run")), expectProblem(404))
      const problem = yield* Effect.flatMap(pipeline.call(pipeline.path(`steps/${id}`)), expectProblem(409))
      expect(problem.error).toContain("not a run")
      expect(problem.hint).toContain(`/status/${id}?explain`)
    }))

  it.effect("explain: says what a parked run waits for, and that a held run waits for another definition", () =>
    Effect.gen(function*() {
      const { id, journal, pipeline, post, start, worker } = yield* make
      const why = Effect.flatMap(pipeline.call(pipeline.path(`status/${id}?explain`)), expectJson(200, ExplainedJob)).pipe(
        Effect.map(({ explain }) => explain)
      )
      yield* start()
      expect(yield* why).toMatchObject({ reason: "running" })
      yield* journal({ records: [{ path: "write", kind: "step", body: 1 }, WAIT], park: { seen: 2 } })
      const waiting = yield* why
      expect(waiting).toMatchObject({ reason: "parked", waitsFor: [{ path: "approve", event: { name: "approved", key: "7" } }] })
      expect(waiting?.words).toContain("for the event \"approved\" with key \"7\" (until ")
      expect(waiting).not.toHaveProperty("lease")
      expect(waiting).toMatchObject({ attempts: { made: 1, most: null } })
      yield* send(pipeline, { name: "approved", key: "7" })
      expect(yield* worker.next).toMatchObject({ id, attempt: 2 })
      const other = { name: "letters", nodes: [{ address: "stamp", kind: "run" }] }
      const hash = "c".repeat(64)
      yield* post({
        definitions: [{ hash, graph: other }],
        runs: [{ run: id, attempt: 2, start: { definition: hash } }]
      })
      const held = yield* why
      expect(held).toMatchObject({ reason: "held" })
      expect(held?.words).toContain("the node \"write\"")
      expect(held?.words).toContain(`definition ${HASH.slice(0, 12)}.`)
      expect(held?.words).toContain(`stint rollback ${pipeline.id}`)
      expect(held?.words).toContain(`/retry/${id}?from=NODE. Or cancel it: POST /v2/${pipeline.id}/cancel/${id}`)
      expect(yield* stepsOf(pipeline, id)).toMatchObject({ held: expect.stringContaining("the node \"write\"") })
      const retry = (from: string) => pipeline.call(pipeline.path(`retry/${id}?from=${from}`), { method: "POST" })
      yield* Effect.flatMap(retry("nowhere"), expectProblem(400))
      expect((yield* retry("write")).json).toEqual({ id, status: "IN_QUEUE" })
      expect(yield* worker.next).toMatchObject({ id, attempt: 3 })
      const resumed = yield* journal({ attempt: 3, start: { definition: hash }, after: 0 })
      // The wait is in neither graph.
      expect(resumed).toMatchObject({ state: "running", entries: [{ path: "approve" }, { path: "approve" }] })
      // The run follows the new definition from now on, so it is no longer held.
      yield* Effect.flatMap(retry("stamp"), expectProblem(409))
    }))

  it.effect("cancel, purge-queue: can be repeated while a run is running its compensations", () =>
    Effect.gen(function*() {
      const { id, journal, pipeline, worker } = yield* make
      const start = { definition: HASH, undo: true }
      yield* journal({ start }, { definitions: [{ hash: HASH, graph }] })
      const records = [{ path: "write", kind: "step", body: 1 }, WAIT]
      expect(yield* journal({ records, park: { seen: 2 } })).toMatchObject({ state: "parked" })
      const { id: waiting } = yield* pipeline.run({})
      const post = (path: string) => Effect.map(pipeline.call(pipeline.path(path), { method: "POST" }), ({ json }) => json)
      expect(yield* post(`cancel/${id}`)).toEqual({ id, status: "IN_QUEUE" })
      expect(yield* post(`cancel/${id}`)).toEqual({ id, status: "IN_QUEUE" })
      expect(yield* post("purge-queue")).toEqual({ removed: 1, status: "completed" })
      expect(yield* post("purge-queue")).toEqual({ removed: 0, status: "completed" })
      expect(yield* post(`cancel/${waiting}`)).toEqual({ id: waiting, status: "CANCELLED" })
      expect(yield* worker.next).toMatchObject({ id, attempt: 2 })
      expect(yield* journal({ attempt: 2, start, after: 0 })).toMatchObject({ phase: "undoing" })
      yield* journal({ attempt: 2, records: [{ path: "write", kind: "undo" }], finish: { cancelled: true } })
      expect(yield* post(`cancel/${id}`)).toEqual({ id, status: "CANCELLED" })
    }))

  it.effect("definitions: returns the graph as its worker sent it", () =>
    Effect.gen(function*() {
      const { children, pipeline, post, start } = yield* make
      yield* start()
      expect((yield* pipeline.call(pipeline.path(`definitions/${HASH}`))).json).toEqual(graph)
      for (const path of [children.path(`definitions/${HASH}`), pipeline.path("definitions/none")]) {
        expect(yield* Effect.flatMap(pipeline.call(path), expectProblem(404))).toMatchObject({
          type: "/problems/definition-not-found"
        })
      }
      // A graph that cannot be read would fail later calls.
      yield* Effect.flatMap(post({ definitions: [{ hash: "b".repeat(64), graph: { nodes: 1 } }], runs: [] }), expectProblem(400))
    }))

  it.effect("definitions: counts the open runs of each definition, and says what a new definition would do to them", () =>
    Effect.gen(function*() {
      const { children, id, journal, pipeline, post, start, worker } = yield* make
      const list = Effect.flatMap(pipeline.call(pipeline.path("definitions")), expectJson(200, DefinitionList))
      const compare = (nodes: Schema.Json) =>
        Effect.flatMap(
          pipeline.call(pipeline.path("compare-definition"), { json: { graph: { name: "letters", nodes } } }),
          expectJson(200, DefinitionComparison)
        )
      expect(yield* list).toEqual({ definitions: [] })
      expect(yield* compare([])).toEqual({ open: 0, continuing: 0, waiting: 0, nodes: [], added: [] })
      yield* start()
      yield* journal({ records: [{ path: "write", kind: "step", body: 1 }, WAIT], park: { seen: 2 } })
      const { id: second } = yield* pipeline.run({})
      yield* worker.next
      yield* post({ runs: [{ run: second, attempt: 1, start: { definition: HASH }, records: [WAIT], park: { seen: 1 } }] })
      expect(yield* list).toMatchObject({ definitions: [{ hash: HASH, open: 2, held: 0, definedAt: expect.any(Number) }] })
      // Only one of the runs has recorded the node that changes, and none has recorded the removed node.
      expect(yield* compare([{ address: "write", kind: "run" }, { address: "seal", kind: "step" }])).toEqual({
        open: 2,
        continuing: 1,
        waiting: 1,
        nodes: [
          {
            definition: HASH,
            node: "write",
            change: "changed",
            waiting: 1,
            reason: "The run has recorded the node \"write\" as a step; in the definition of the worker it is a run.",
            example: id
          },
          {
            definition: HASH,
            node: "stamp",
            change: "removed",
            waiting: 0,
            reason: "The run has recorded the node \"stamp\", which the definition of the worker does not have."
          }
        ],
        added: ["seal"]
      })
      expect(yield* compare(graph.nodes)).toMatchObject({ open: 2, continuing: 2, waiting: 0, nodes: [], added: [] })
      expect((yield* children.call(children.path("definitions"))).json).toEqual({ definitions: [] })
      yield* Effect.flatMap(
        pipeline.call(pipeline.path("compare-definition"), { json: { graph: { nodes: 1 } } }),
        expectProblem(400)
      )
      yield* pipeline.cancel(id)
      expect(yield* list).toMatchObject({ definitions: [{ open: 1 }] })
    }))

  it.effect("retry: runs a failed run again from a node, and lists the nodes when there is no such node", () =>
    Effect.gen(function*() {
      const { id, journal, pipeline, start, worker } = yield* make
      yield* start()
      const records = ["write", "stamp"].map((path) => ({ path, kind: "step", body: 1 }))
      yield* journal({ records, finish: { error: "no stamps" } })
      const retry = (run: string, from: string) => pipeline.call(pipeline.path(`retry/${run}?from=${from}`), { method: "POST" })
      const unknown = yield* Effect.flatMap(retry(id, "post"), expectProblem(400))
      expect(unknown.error).toContain("no node \"post\"")
      expect(unknown.hint).toContain("write, stamp")
      yield* Effect.flatMap(retry("no-such-run", "write"), expectProblem(404))
      const { id: plain } = yield* pipeline.run({})
      yield* Effect.flatMap(retry(plain, "write"), expectProblem(409))
      yield* pipeline.cancel(plain)
      expect((yield* retry(id, "stamp")).json).toEqual({ id, status: "IN_QUEUE" })
      expect((yield* stepsOf(pipeline, id)).steps).toMatchObject([{ path: "write", state: "completed" }])
      expect(yield* worker.next).toMatchObject({ id })
      yield* Effect.flatMap(retry(id, "stamp"), expectProblem(409))
    }))
}
