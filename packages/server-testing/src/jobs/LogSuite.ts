/**
 * Tests log lines, both as job events and in pages (contract, JobLogs.ts, JobEvents.ts; R9, docs/spec/figures.md#reliability).
 */
import { expect } from "@effect/vitest"
import { FoundLogPage, JobLogPage } from "@stint/contract/JobLogLine"
import type { LogLevel, LogSource } from "@stint/contract/JobLogLine"
import { JobLogs } from "@stint/queue/JobLogs"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as fc from "fast-check"
import { dataOf, open, type SentEvent } from "../EventReader.ts"
import type { ServerIt } from "../ServerIt.ts"
import { ADMIN_KEY, ServerTest } from "../ServerTest.ts"
import type { TestEndpoint } from "../TestEndpoint.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

const read = Effect.fnUntraced(function*(
  endpoint: TestEndpoint,
  job: string,
  options: { readonly after?: string | undefined; readonly query?: string; readonly cutAfter?: number } = {}
) {
  const { baseUrl } = yield* ServerTest
  const { after, cutAfter, query = "" } = options
  return yield* open(`${baseUrl}${endpoint.path(`events/${job}`)}${query}`, {
    authorization: `Bearer ${ADMIN_KEY}`,
    ...(after === undefined ? {} : { "last-event-id": after })
  }, cutAfter)
})

/** Stores a log line. Log lines come from a worker's output pipe, which is not part of the wire protocol. */
const say = Effect.fnUntraced(function*(
  { endpoint }: TestEndpoint,
  worker: string,
  message: string,
  { job, level = "INFO", source = "log", step }: {
    readonly job?: string
    readonly level?: LogLevel
    readonly source?: LogSource
    readonly step?: string
  } = {}
) {
  const logs = yield* JobLogs
  return yield* logs.write({ endpoint: endpoint.id, worker, job, level, source, message, step })
})

const flush = Effect.flatMap(JobLogs, (logs) => logs.flush)

const page = expectJson(200, JobLogPage)

const found = expectJson(200, FoundLogPage)

const logsOf = (endpoint: TestEndpoint, job: string, query = "") =>
  Effect.flatMap(endpoint.call(endpoint.path(`logs/${job}${query}`)), page)

const messagesOf = (events: ReadonlyArray<SentEvent>) =>
  Effect.map(
    Effect.forEach(events.filter(({ event }) => event === "log"), dataOf),
    (all) => all.map((data) => (data as { readonly message: string }).message)
  )

/** Registers the tests for log lines. */
export const logs = (it: ServerIt): void => {
  it.effect("events: log lines appear among the other events, with level, time, attempt, source and worker", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const reader = yield* read(endpoint, id)
      expect((yield* reader.next)?.event).toBe("status")
      yield* say(endpoint, worker.id, "two\nlines ✓", { job: id, level: "WARN" })
      const first = yield* reader.next
      expect([first?.event, yield* dataOf(first)]).toEqual(["log", {
        number: 1,
        time: expect.any(Number),
        level: "WARN",
        message: "two\nlines ✓",
        attempt: 1,
        source: "log",
        workerId: worker.id
      }])
      yield* worker.stream(id, ["chunk"])
      expect((yield* reader.next)?.event).toBe("chunk")
      // The line does not name a job, and the worker holds exactly one.
      yield* say(endpoint, worker.id, "printed", { source: "stdout" })
      expect(yield* dataOf(yield* reader.next)).toMatchObject({ number: 2, message: "printed", source: "stdout" })
      yield* worker.finish(id, "done")
      expect((yield* reader.rest).map(({ event }) => event)).toEqual(["end"])
      const again = yield* (yield* read(endpoint, id)).rest
      expect(again.map(({ event }) => event)).toEqual(["status", "log", "chunk", "log", "end"])
    }))

  it.effect("events: the end event follows all lines written before it, without waiting for the next batch", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (let n = 0; n < 10; n++) {
        const { id } = yield* endpoint.run({})
        yield* worker.next
        const reader = yield* read(endpoint, id)
        yield* reader.next
        yield* say(endpoint, worker.id, "last word", { job: id })
        yield* worker.finish(id, "done")
        expect((yield* reader.rest).map(({ event }) => event)).toEqual(["log", "end"])
      }
    }))

  it.effect("events: a line after the end reaches a reconnecting client once; the next reconnect returns 204", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.finish(id, "done")
      const end = (yield* (yield* read(endpoint, id)).rest).at(-1)
      expect(end?.event).toBe("end")
      yield* say(endpoint, worker.id, "late", { job: id })
      yield* flush
      const back = yield* (yield* read(endpoint, id, { after: end?.id })).rest
      expect([back.map(({ event }) => event), yield* messagesOf(back)]).toEqual([["log"], ["late"]])
      expect((yield* read(endpoint, id, { after: back[0]?.id })).status).toBe(204)
      // A client that does not request log lines has already received everything.
      expect((yield* read(endpoint, id, { after: end?.id, query: "?events=status" })).status).toBe(204)
    }))

  it.effect("events: `events` selects kinds, the end event is always sent, and an unknown kind is rejected", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.stream(id, [1])
      yield* say(endpoint, worker.id, "line", { job: id })
      yield* worker.finish(id, "done")
      const kinds = Effect.fnUntraced(function*(query: string) {
        return (yield* (yield* read(endpoint, id, { query })).rest).map(({ event }) => event)
      })
      expect(yield* kinds("?events=log")).toEqual(["log", "end"])
      expect(yield* kinds("?events=status,chunk")).toEqual(["status", "chunk", "end"])
      expect(yield* kinds("?events=chunk,%20log,end")).toEqual(["chunk", "log", "end"])
      expect(yield* kinds("?events=")).toEqual(["end"])
      const problem = yield* Effect.flatMap(endpoint.call(`${endpoint.path(`events/${id}`)}?events=logs`), expectProblem(400))
      expect(problem.errors?.[0]?.path).toEqual(["events"])
    }))

  it.effect("logs, events: name the step of a pipeline that logged a line, and logs returns the lines of one step or node", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const steps = ["list", "page[0]", "page[1]", "extras.cover", "page[1]~undo", "pages"]
      for (const step of steps) yield* say(endpoint, worker.id, `in ${step}`, { job: id, step })
      yield* say(endpoint, worker.id, "in no step", { job: id })
      const wanted = (step: string) =>
        Effect.map(logsOf(endpoint, id, `?step=${encodeURIComponent(step)}`), ({ lines }) => lines.map(({ step }) => step))
      expect((yield* logsOf(endpoint, id)).lines.map(({ step }) => step)).toEqual([...steps, undefined])
      expect(yield* wanted("page")).toEqual(["page[0]", "page[1]", "page[1]~undo"])
      expect(yield* wanted("page[1]")).toEqual(["page[1]"])
      expect(yield* wanted("extras")).toEqual(["extras.cover"])
      expect(yield* wanted("none")).toEqual([])
      yield* worker.finish(id, "done")
      const events = (yield* (yield* read(endpoint, id)).rest).filter(({ event }) => event === "log")
      expect(yield* dataOf(events[0])).toMatchObject({ message: "in list", step: "list" })
    }))

  it.effect("logs: returns the lines of all attempts, oldest first, page by page, from a minimum level", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint({ maxAttempts: 3 })
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* say(endpoint, worker.id, "one", { job: id, level: "DEBUG" })
      // The worker reports that no job is in progress, so the first attempt is lost.
      yield* worker.take(false)
      yield* say(endpoint, worker.id, "two", { job: id, level: "ERROR", source: "stderr" })
      yield* say(endpoint, worker.id, "three", { job: id })
      const all = yield* logsOf(endpoint, id)
      expect(all.lines.map(({ number }) => number)).toEqual([1, 2, 3, 4])
      const [ended, ...others] = all.lines.filter(({ source }) => source === "platform")
      expect([ended, others]).toMatchObject([
        { attempt: 1, level: "WARN", workerId: worker.id, ended: { outcome: "lost", error: expect.stringContaining(worker.id) } },
        []
      ])
      const printed = all.lines.filter(({ source }) => source !== "platform")
      expect(printed.map(({ attempt, level, message }) => [attempt, level, message])).toEqual([
        [1, "DEBUG", "one"],
        [2, "ERROR", "two"],
        [2, "INFO", "three"]
      ])
      expect([all.cursor, all.more]).toEqual([4, false])
      const first = yield* logsOf(endpoint, id, "?limit=3")
      expect([first.lines.length, first.cursor, first.more]).toEqual([3, 3, true])
      expect((yield* logsOf(endpoint, id, `?after=${first.cursor}`)).lines.map(({ message }) => message)).toEqual(["three"])
      expect((yield* logsOf(endpoint, id, "?level=error")).lines.map(({ message }) => message)).toEqual(["two"])
      expect((yield* logsOf(endpoint, id, "?contains=TH")).lines.map(({ message }) => message).at(-1)).toBe("three")
      const nothing = yield* logsOf(endpoint, id, "?contains=four")
      expect(nothing).toEqual({ lines: [], cursor: 4, more: false })
      expect(yield* logsOf(endpoint, id, "?after=4")).toEqual({ lines: [], cursor: 4, more: false })
      expect((yield* logsOf(endpoint, (yield* endpoint.run({})).id)).lines).toEqual([])
    }))

  it.effect("logs: returns 404 for an unknown job or one of another endpoint, 400 for an invalid query with its path, 401 without a key", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const other = yield* server.endpoint()
      const { id } = yield* endpoint.run({})
      yield* Effect.flatMap(endpoint.call(endpoint.path("logs/nope")), expectProblem(404))
      yield* Effect.flatMap(other.call(other.path(`logs/${id}`)), expectProblem(404))
      yield* Effect.flatMap(endpoint.call(endpoint.path(`logs/${id}`), { authorization: null }), expectProblem(401))
      for (
        const [key, value] of [["after", "-1"], ["after", "x"], ["level", "loud"], ["limit", "0"], ["limit", "1001"], [
          "contains",
          "x".repeat(501)
        ]] as const
      ) {
        const problem = yield* Effect.flatMap(endpoint.call(endpoint.path(`logs/${id}?${key}=${value}`)), expectProblem(400))
        expect(problem.errors?.[0]?.path).toEqual([key])
      }
    }))

  it.effect("logs: assigns the lines of two jobs on one worker to their jobs, and a worker cannot log to another worker's job", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const thief = yield* endpoint.worker()
      const [a, b] = [yield* endpoint.run("a"), yield* endpoint.run("b")]
      yield* worker.takeBatch(2)
      for (let n = 0; n < 20; n++) {
        for (const { id } of [a, b]) yield* say(endpoint, worker.id, `${id} ${n}`, { job: id })
        expect(yield* say(endpoint, thief.id, "not mine", { job: a.id })).toBe(false)
        expect(yield* say(endpoint, worker.id, "whose?")).toBe(false)
      }
      for (const { id } of [a, b]) {
        const { lines } = yield* logsOf(endpoint, id)
        expect(lines.map(({ message }) => message)).toEqual(Array.from({ length: 20 }, (_, n) => `${id} ${n}`))
      }
    }))

  it.effect("logs: searches the lines of all jobs of an endpoint, newest first, and rejects invalid values", () =>
    Effect.gen(function*() {
      const { endpoint: create } = yield* ServerTest
      const endpoint = yield* create()
      const search = (query: string) => Effect.flatMap(endpoint.call(endpoint.path(`logs${query}`)), found)
      expect(yield* search("")).toEqual({ lines: [], cursor: null, searched: 0 })
      const worker = yield* endpoint.worker()
      const ids: Array<string> = []
      for (const text of ["one", "two", "three"]) {
        const { id } = yield* endpoint.run({})
        ids.push(id)
        yield* worker.next
        yield* say(endpoint, worker.id, `begins ${text}`, { job: id })
        yield* say(endpoint, worker.id, `Timeout of ${text}`, { job: id, level: "ERROR", step: "charge" })
        // The search includes pending lines.
        if (text !== "three") yield* flush
        yield* worker.finish(id, "done")
      }
      const other = yield* create()
      const elsewhere = yield* other.worker()
      const { id } = yield* other.run({})
      yield* elsewhere.next
      yield* say(other, elsewhere.id, "Timeout elsewhere", { job: id })
      const all = yield* search("?contains=timeout&level=warn&since=2026-01-01T00:00:00Z")
      expect(all).toEqual({
        lines: ids.toReversed().map((job, index) => ({
          job,
          number: 2,
          time: expect.any(Number),
          level: "ERROR",
          message: `Timeout of ${["three", "two", "one"][index]}`,
          attempt: 1,
          source: "log",
          step: "charge",
          workerId: worker.id
        })),
        cursor: null,
        searched: 6,
        oldest: expect.any(Number)
      })
      const first = yield* search("?contains=timeout&limit=2")
      expect([first.lines, first.stopped]).toEqual([all.lines.slice(0, 2), undefined])
      expect((yield* search(`?contains=timeout&limit=2&cursor=${first.cursor}`)).lines).toEqual(all.lines.slice(2))
      expect((yield* search(`?since=${Date.now() + 3_600_000}`)).lines).toEqual([])
      const invalid = [
        "cursor=x",
        "cursor=1.2.3",
        "limit=0",
        "limit=1001",
        "level=loud",
        "since=yesterday",
        `contains=${"x".repeat(501)}`
      ]
      for (const query of invalid) {
        const problem = yield* Effect.flatMap(endpoint.call(endpoint.path(`logs?${query}`)), expectProblem(400))
        expect(problem.errors?.[0]?.path, query).toEqual([query.split("=")[0]])
      }
    }))

  it.effect(
    "R9: delivers every log line and chunk once and in order, at whatever byte the connection breaks",
    () =>
      Effect.gen(function*() {
        const endpoint = yield* (yield* ServerTest).endpoint()
        const worker = yield* endpoint.worker()
        const services = yield* Effect.context<ServerTest | JobLogs>()

        const once = Effect.fnUntraced(function*(steps: ReadonlyArray<"chunk" | "log">, cuts: ReadonlyArray<number>) {
          const { id } = yield* endpoint.run({})
          yield* worker.next
          let lines = 0
          let chunks = 0
          const working = yield* Effect.forkChild(Effect.gen(function*() {
            for (const step of steps) {
              if (step === "log") yield* say(endpoint, worker.id, `${++lines}`, { job: id })
              else yield* worker.stream(id, [`${++chunks}`])
            }
            yield* worker.finish(id, "done")
          }))
          const seen: Array<SentEvent> = []
          for (let turn = 0; seen.at(-1)?.event !== "end"; turn++) {
            // Every third connection stays open long enough for an event of any length.
            const cutAfter = turn % 3 === 2 ? 2_000 : cuts[turn % cuts.length] ?? 1
            const reader = yield* read(endpoint, id, { after: seen.at(-1)?.id, cutAfter })
            seen.push(...yield* reader.rest)
          }
          yield* Fiber.join(working)
          const numbered = (amount: number) => Array.from({ length: amount }, (_, n) => `${n + 1}`)
          expect(yield* messagesOf(seen)).toEqual(numbered(lines))
          const outputs = yield* Effect.forEach(seen.filter(({ event }) => event === "chunk"), dataOf)
          expect(outputs.map((data) => (data as { readonly output: string }).output)).toEqual(numbered(chunks))
          expect(seen.filter(({ event }) => event === "end")).toHaveLength(1)
        }, Effect.scoped)

        yield* Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(
              fc.array(fc.constantFrom("chunk", "log", "log"), { maxLength: 20 }),
              fc.array(fc.integer({ min: 1, max: 700 }), { minLength: 1, maxLength: 6 }),
              (steps, cuts) => Effect.runPromiseWith(services)(once(steps, cuts))
            ),
            { numRuns: 12 }
          )
        )
      }),
    60_000
  )
}
