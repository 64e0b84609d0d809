/**
 * The journal over a connection that loses responses. The in-memory journal acts as the platform.
 */
import { describe, expect, it } from "@effect/vitest"
import { RunJournalRequest } from "@stint/contract/RunJournal"
import { CurrentJob } from "@stint/worker/CurrentJob"
import { JobSource, JobSourceError, Refused, Unreachable } from "@stint/worker/JobSource"
import * as Shutdown from "@stint/worker/Shutdown"
import { JobSourceMemory } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { Pipeline } from "../src/index.ts"
import { Journal } from "../src/Journal.ts"
import * as JournalHttp from "../src/JournalHttp.ts"
import * as JournalMemory from "../src/JournalMemory.ts"

const decode = Schema.decodeUnknownSync(Schema.fromJsonString(RunJournalRequest))

const unreachable = new JobSourceError({
  reason: new Unreachable({ detail: "the platform does not answer (ECONNRESET)", timedOut: false })
})
const refused = new JobSourceError({ reason: new Refused({ status: 413, text: "too large" }) })

interface Request {
  readonly body: RunJournalRequest
  readonly length: number
}

/** What happens to a request: it is lost, its response is lost, it is refused, the platform has lost the definition, or nothing. */
type Fault = "request" | "answer" | "refused" | "unknown"

/** A platform that records its requests, and applies to each the fault that `faultOf` returns. */
const platform = Effect.fnUntraced(function*(
  faultOf: (request: Request, index: number) => Fault | undefined = () => undefined,
  options: JournalMemory.MemoryOptions = {}
) {
  const memory = yield* JournalMemory.make(options)
  const requests: Array<Request> = []
  let down: "journal" | "chunks" | undefined
  const source = JobSource.of({
    ...yield* JobSource,
    deliverChunk: () => down === "chunks" ? Effect.fail(unreachable) : Effect.void,
    runJournal: (text) =>
      Effect.gen(function*() {
        const request = { body: decode(text), length: text.length }
        const fault = faultOf(request, requests.length)
        requests.push(request)
        if (fault === "request" || down === "journal") return yield* unreachable
        if (fault === "refused") return yield* refused
        const { runs } = request.body
        if (fault === "unknown") {
          const answers = runs.map(({ run }) => ({
            run,
            state: "running",
            n: 0,
            entries: [],
            phase: "doing",
            chunks: 0,
            definition: "unknown"
          }))
          return JSON.stringify({ now: 0, runs: answers })
        }
        const answers = yield* Effect.forEach(runs, (write) =>
          Effect.orDie(memory.journal.write(write, { hash: "", graph: { name: "", nodes: [] }, undo: false })))
        if (fault === "answer") {
          return yield* unreachable
        }
        return JSON.stringify({ now: 0, runs: answers })
      })
  })
  const journal = yield* JournalHttp.make((body) => source.runJournal?.(body) ?? Effect.die("no journal")).pipe(
    Effect.provideService(JobSource, source)
  )
  const start = (
    pipeline: Pipeline.Pipeline<string, Schema.Constraint, Schema.Constraint, never>,
    id: string,
    input: Schema.Json,
    attempt = 1
  ) =>
    Effect.forkChild(
      Effect.exit(pipeline.run({ id, input, attempt }, undefined)).pipe(
        Effect.provideService(Journal, journal),
        Effect.provideService(CurrentJob, { id, input })
      ),
      { startImmediately: true }
    )
  return {
    memory,
    requests,
    start,
    /** From now on, the platform does not respond to these requests. */
    goDown: (requests: "journal" | "chunks") => {
      down = requests
    }
  }
})

const Sum = Pipeline.make("sum", { input: Schema.Number })
  .step("a", (n) => n + 1)
  .step("b", (n) => n + 1)
  .step("c", (n) => n + 1)
  .end(Schema.Number)

const within = <A, E>(self: Effect.Effect<A, E, JobSource | Shutdown.Shutdown>) =>
  Effect.provide(self, Layer.merge(JobSourceMemory.layer, Shutdown.layer))

describe("the journal of a platform", () => {
  it.effect("writes what all runs record in one turn of the event loop in one request, and the end with the last record", () =>
    within(Effect.scoped(Effect.gen(function*() {
      const { memory, requests, start } = yield* platform(() => undefined)
      const ids = Array.from({ length: 50 }, (_, index) => `run${index}`)
      const fibers = yield* Effect.forEach(ids, (id, index) => start(Sum, id, index))
      const ends = yield* Effect.forEach(ids, (id) => memory.ended(id))
      yield* Effect.forEach(fibers, Fiber.await)
      expect(ends).toEqual(ids.map((_, index) => ({ status: "COMPLETED", output: index + 3 })))
      // Three at best, and 150 if each run sent its own requests. Runs that begin between two requests share the next one.
      expect(requests.length).toBeLessThanOrEqual(20)
      expect(requests[0]?.body.definitions).toHaveLength(1)
      expect(requests.slice(1).every(({ body }) => body.definitions === undefined)).toBe(true)
      const last = requests.flatMap(({ body }) => body.runs).find(({ finish, run }) => run === "run0" && finish !== undefined)
      expect(last?.records?.map(({ path }) => path)).toEqual(["c"])
    }))))

  it.effect.each(
    [
      ["parks a run at once that only sleeps", ["1 hour", "2 hours"], false],
      ["holds a run for a moment before it parks when a sleep ends soon", ["1 hour", "500 millis"], true]
    ] as const
  )("%s", ([, naps, isHeld]) =>
    within(Effect.scoped(Effect.gen(function*() {
      const { requests, start } = yield* platform(undefined, { parks: true })
      const [first, second] = naps
      const Naps = Pipeline.make("naps", { input: Schema.Number })
        .all("naps", { first: (one) => one.sleep("nap", first), second: (one) => one.sleep("nap", second) })
        .end(Schema.Unknown)
      yield* Fiber.await(yield* start(Naps, "run", 1))
      const parking = requests.filter(({ body }) => body.runs.some(({ park }) => park !== undefined))
      expect(parking.map(({ body }) => body.waitMs)).toEqual([isHeld ? 1_000 : undefined])
    }))))

  it.effect("holds a run for a moment before it parks when it waits for an event", () =>
    within(Effect.scoped(Effect.gen(function*() {
      const { requests, start } = yield* platform(undefined, { parks: true })
      const Approval = Pipeline.make("approval", { input: Schema.Number }).waitFor("approved", Schema.Boolean).end(Schema.Boolean)
      yield* Fiber.await(yield* start(Approval, "run", 1))
      const parking = requests.filter(({ body }) => body.runs.some(({ park }) => park !== undefined))
      expect(parking.map(({ body }) => body.waitMs)).toEqual([1_000])
    }))))

  it.effect("sends a request again when it or its response is lost, and records each step once", () =>
    within(Effect.scoped(Effect.gen(function*() {
      const faults: ReadonlyArray<Fault | undefined> = ["request", "answer", undefined, "answer", "request", "answer"]
      const { memory, requests, start } = yield* platform((_, index) => faults[index])
      const fiber = yield* start(Sum, "run", 1)
      const clock = yield* Effect.forkChild(Effect.forever(Effect.andThen(Effect.yieldNow, TestClock.adjust("1 second"))))
      expect(yield* memory.ended("run")).toEqual({ status: "COMPLETED", output: 4 })
      yield* Fiber.await(fiber)
      yield* Fiber.interrupt(clock)
      expect(memory.entries("run").map(({ kind, path }) => `${kind} ${path}`)).toEqual(["step a", "step b", "step c"])
      expect(requests.length).toBeGreaterThanOrEqual(6)
    }))))

  it.effect("sends the definition again when the platform has lost it", () =>
    within(Effect.scoped(Effect.gen(function*() {
      const { memory, requests, start } = yield* platform((_, index) => index === 1 ? "unknown" : undefined)
      const fiber = yield* start(Sum, "run", 1)
      expect((yield* memory.ended("run")).output).toBe(4)
      yield* Fiber.await(fiber)
      expect(requests.map(({ body }) => body.definitions?.length ?? 0)).toEqual([1, 0, 1, 0])
    }))))

  it.effect("does not continue a run that has undone a step, and undoes the rest", () =>
    within(Effect.scoped(Effect.gen(function*() {
      const log: Array<string> = []
      const Undone = Pipeline.make("undone", { input: Schema.Number })
        .step("a", (n) => n, { undo: () => void log.push("undo a") })
        .step("b", (n) => n, { undo: () => void log.push("undo b") })
        .step("c", () => void log.push("c"))
        .end(Schema.Unknown)
      const { memory, start } = yield* platform(() => undefined)
      // The state after a caller's retry: the failure is forgotten, but what was undone is not.
      yield* memory.journal.write({
        run: "run",
        attempt: 1,
        records: [
          { path: "a", kind: "step", body: 1 },
          { path: "b", kind: "step", body: 1 },
          { path: "b~undo", kind: "undo" }
        ]
      }, { hash: "", graph: { name: "", nodes: [] }, undo: true })
      const fiber = yield* start(Undone, "run", 1, 2)
      expect((yield* memory.ended("run")).error).toContain("was undone, so it cannot continue. Start a new run.")
      yield* Fiber.await(fiber)
      expect(log).toEqual(["undo a"])
    }))))

  it.effect("fails only the run whose write the platform refuses, and undoes what it did", () =>
    within(Effect.scoped(Effect.gen(function*() {
      const log: Array<string> = []
      const Large = Pipeline.make("large", { input: Schema.Number })
        .step("reserve", (n) => n, { undo: (n) => void log.push(`release ${n}`) })
        .select((_, n) => [5, n])
        .forEach("fill", (n) => "x".repeat(n), { undo: (text) => void log.push(`empty ${text.length}`) })
        .step("size", (all) => all.join("").length)
        .end(Schema.Number)
      const { memory, start } = yield* platform(({ length }) => length > 5_000 ? "refused" : undefined)
      const small = yield* start(Large, "small", 10)
      const large = yield* start(Large, "large", 6_000)
      expect((yield* memory.ended("small")).output).toBe(15)
      expect(yield* memory.ended("large")).toEqual({
        status: "FAILED",
        error:
          "The step \"fill[1]\" failed: The platform does not accept the journal of the run: the platform answered 413: too large"
      })
      yield* Fiber.join(small)
      yield* Fiber.join(large)
      expect(log).toEqual(["empty 5", "release 6000"])
    }))))

  it.effect("undoes what a run did when the platform refuses its output", () =>
    within(Effect.scoped(Effect.gen(function*() {
      const log: Array<string> = []
      const Large = Pipeline.make("large", { input: Schema.Number })
        .step("reserve", (n) => n, { undo: () => void log.push("release") })
        .select((_, n) => "x".repeat(n))
        .end(Schema.String)
      const { memory, start } = yield* platform(({ length }) => length > 5_000 ? "refused" : undefined)
      const fiber = yield* start(Large, "run", 6_000)
      expect((yield* memory.ended("run")).error).toContain("The step \"end\" failed: The platform does not accept")
      yield* Fiber.join(fiber)
      expect(log).toEqual(["release"])
    }))))

  it.effect("splits what a run records in one turn, so that large and many records fit", () =>
    within(Effect.scoped(Effect.gen(function*() {
      const Wide = Pipeline.make("wide", { input: Schema.Struct({ items: Schema.Number, length: Schema.Number }) })
        .select(({ input }) => Array.from({ length: input.items }, () => input.length))
        .forEach("fill", (length) => "x".repeat(length), { concurrency: 3_000 })
        .step("size", (all) => all.join("").length)
        .end(Schema.Number)
      const { memory, requests, start } = yield* platform(({ body, length }) =>
        length > 1_500_000 || body.runs.some(({ records = [] }) => records.length > 1_000) ? "refused" : undefined
      )
      yield* start(Wide, "large", { items: 8, length: 300_000 })
      yield* start(Wide, "many", { items: 2_500, length: 1 })
      expect((yield* memory.ended("large")).output).toBe(2_400_000)
      expect((yield* memory.ended("many")).output).toBe(2_500)
      expect(requests.filter(({ length }) => length > 1_500_000)).toEqual([])
    }))))

  it.effect("sends a large output of the last step before the end of the run, so that no request contains it twice", () =>
    within(Effect.scoped(Effect.gen(function*() {
      const Large = Pipeline.make("large", { input: Schema.Number }).step("fill", (n) => "x".repeat(n)).end(Schema.String)
      const { memory, requests, start } = yield* platform(({ length }) => length > 1_500_000 ? "refused" : undefined)
      yield* start(Large, "run", 1_200_000)
      expect((yield* memory.ended("run")).status).toBe("COMPLETED")
      expect(requests.map(({ body }) => body.runs.map(({ finish, records = [] }) => [records.length, finish !== undefined])))
        .toEqual([
          [[1, false]],
          [[0, true]]
        ])
    }))))

  const Chunks = Pipeline.make("chunks", { input: Schema.Number })
    .step("a", (n) => n)
    .stream("words", () => Stream.make("one", "two"))
    .end(Schema.Unknown)

  for (const [requests, pipeline, recorded] of [["journal", Sum, []], ["chunks", Chunks, ["step a", "choice words"]]] as const) {
    it.effect(`repeats a write of the ${requests} while the worker runs, and gives the run up 30 s after its shutdown began`, () =>
      within(Effect.scoped(Effect.gen(function*() {
        const { goDown, memory, start } = yield* platform(() => undefined)
        goDown(requests)
        const fiber = yield* start(pipeline, "run", 1)
        yield* TestClock.adjust("10 minutes")
        expect(fiber.pollUnsafe()).toBeUndefined()
        yield* (yield* Shutdown.Shutdown).request({ reason: "SIGTERM", exitCode: 0 })
        yield* TestClock.adjust("25 seconds")
        expect(fiber.pollUnsafe()).toBeUndefined()
        yield* TestClock.adjust("10 seconds")
        // `JobLost`: the worker delivers nothing for the job.
        expect(yield* Fiber.join(fiber)).toMatchObject(Exit.fail({ _tag: "JobLost", detail: "lost" }))
        expect(memory.entries("run").map(({ kind, path }) => `${kind} ${path}`)).toEqual(recorded)
      }))))
  }
})
