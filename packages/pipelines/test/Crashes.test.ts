/**
 * Kills the worker at every record of every kind of node, and at random records of random pipelines: a recorded step does not begin again.
 */
import { describe, expect, it } from "@effect/vitest"
import type { JournalRecord } from "@stint/contract/RunJournal"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as FastCheck from "fast-check"
import type { Builder } from "../src/Builder.ts"
import { Pipeline } from "../src/index.ts"
import { PipelineTest } from "../src/testing/index.ts"

/** Counts how often each path began. */
const counter = () => {
  const begun = new Map<string, number>()
  return { begun, begin: (path: string) => void begun.set(path, (begun.get(path) ?? 0) + 1) }
}

const Inner = Pipeline.make("inner", { input: Schema.Number }).step("half", (n) => n / 2).end(Schema.Number)

/** Every kind of node, followed by a failure that is compensated when `fails`. */
const every = (begin: (path: string) => void, fails: boolean) =>
  Pipeline.make("every", { input: Schema.Number })
    .step("list", (n, _, { path }) => {
      begin(path)
      return Array.from({ length: n }, (_value, index) => index)
    }, { undo: (_list, { path }) => begin(path) })
    .forEach("each", (n, _, { attempt, path }) => {
      begin(`${path}#${attempt}`)
      if (n === 1 && attempt === 1) throw new Error("once")
      return n * 10
    }, { concurrency: 2, retry: { times: 1, delay: "1 second" }, undo: (_n, { path }) => begin(path) })
    .all("parts", {
      job: (p) => p.select(({ input }) => input).run("inner", Inner, { undo: (_n, { path }) => begin(path) }),
      wait: (p) => p.sleep("nap", "1 minute").step("woken", (_, __, { path }) => begin(path))
    })
    .branch("choice", ({ each }) => each.length > 1 ? "many" : "few", {
      few: (p) => p.step("none", () => 0),
      many: (p) =>
        p.step("some", (_, __, { path }) => {
          begin(path)
          return 1
        })
    })
    .waitFor("go", Schema.Boolean)
    .stream("words", async function*(_value, _results, { path }) {
      begin(path)
      yield "a"
      yield "b"
    })
    .step("last", (words, _, { path }) => {
      begin(path)
      if (fails) throw new Error("late")
      return words.join("")
    })
    .end(Schema.String)

const runEvery = Effect.fnUntraced(
  function*(fails: boolean, crash?: (record: JournalRecord, when: "before" | "after") => boolean) {
    const { begin, begun } = counter()
    const run = yield* PipelineTest.start(every(begin, fails), 3, {
      endpoints: { inner: Inner },
      ...(crash === undefined ? {} : { crash })
    })
    yield* run.event("go", { data: true })
    yield* run.parked("each[1]")
    yield* TestClock.adjust("1 second")
    yield* run.parked("parts.wait.nap")
    yield* TestClock.adjust("1 minute")
    const result = yield* run.result
    return { begun, result }
  }
)

describe.each([false, true])("a run whose last step fails: %s", (fails) => {
  it.effect("continues after a crash at each record, before and after it is stored", () =>
    Effect.gen(function*() {
      const records: Array<JournalRecord> = []
      const whole = yield* runEvery(fails, (record, when) => {
        if (when === "before") records.push(record)
        return false
      })
      expect(whole.result.status).toBe(fails ? "FAILED" : "COMPLETED")
      expect(new Set(records.map(({ kind }) => kind))).toEqual(
        new Set(["step", "failed", "choice", "spawn", "sleep", "wait", ...(fails ? ["undo"] : [])])
      )
      for (const when of ["before", "after"] as const) {
        // Up to the last step, both runs are the same.
        const differs = records.findIndex(({ path }) => path === "last")
        for (const { kind, path } of fails ? records.slice(differs) : records) {
          const at = `${when} ${kind} ${path}`
          let hits = 0
          const { begun, result } = yield* runEvery(fails, (record, now) => {
            const isHit = now === when && record.kind === kind && record.path === path
            if (isHit) hits++
            return isHit
          })
          // The last record is written together with the end of the run, so once it is stored, the run has ended.
          expect([at, hits]).toEqual([at, when === "after" && path === "last" && !fails ? hits : 1])
          expect([at, result.status, result.output, result.error]).toEqual([
            at,
            whole.result.status,
            whole.result.output,
            whole.result.error
          ])
          expect([at, result.chunks]).toEqual([at, ["a", "b"]])
          for (const [one, times] of begun) {
            // A step whose record was lost runs again. So do steps of parallel parts that were running when the worker died.
            const wasRecorded = when === "after" && (one === path || one === `${path.replace(/~\d+$/, "")}#1`)
            if (wasRecorded) expect([at, one, times]).toEqual([at, one, 1])
            expect([at, one, times <= 2]).toEqual([at, one, true])
          }
        }
      }
    }))
})

/** A random sequence of nodes, as a function that adds them. */
type Shape =
  | { readonly kind: "step" | "sleep" | "run" }
  | { readonly kind: "all" | "branch"; readonly parts: ReadonlyArray<ReadonlyArray<Shape>> }
  | { readonly kind: "forEach"; readonly items: number; readonly concurrency: number }

const { shapes } = FastCheck.letrec<{ shapes: ReadonlyArray<Shape>; shape: Shape }>((tie) => ({
  shape: FastCheck.oneof(
    { depthSize: "small", withCrossShrink: true },
    FastCheck.record({ kind: FastCheck.constantFrom("step" as const, "sleep" as const, "run" as const) }),
    FastCheck.record({
      kind: FastCheck.constant("forEach" as const),
      items: FastCheck.integer({ min: 0, max: 5 }),
      concurrency: FastCheck.integer({ min: 1, max: 3 })
    }),
    FastCheck.record({
      kind: FastCheck.constantFrom("all" as const, "branch" as const),
      parts: FastCheck.array(tie("shapes"), { minLength: 1, maxLength: 3 })
    })
  ),
  shapes: FastCheck.array(tie("shape"), { minLength: 1, maxLength: 3 })
}))

type AnyBuilder = Builder<string, typeof Schema.Number, number, { readonly input: number }, never>

/** Adds random nodes. Every node passes on a number, so that all of them fit. */
const add = (
  start: AnyBuilder,
  all: ReadonlyArray<Shape>,
  began: (path: string) => void,
  names: { next: number }
): AnyBuilder => {
  let builder = start
  for (const shape of all) {
    const name = `n${names.next++}`
    const step = (n: number, _: unknown, { path }: { readonly path: string }) => {
      began(path)
      return n + 1
    }
    switch (shape.kind) {
      case "step":
        builder = untyped(builder.step(name, step))
        break
      case "sleep":
        builder = untyped(builder.sleep(name, "1 second"))
        break
      case "run":
        builder = untyped(builder.run(name, Inner))
        break
      case "forEach":
        builder = untyped(
          builder.select((_, n) => Array.from({ length: shape.items }, () => n)).forEach(name, step, {
            concurrency: shape.concurrency
          })
            .select((_, list) => list.length)
        )
        break
      case "all":
      case "branch": {
        const parts = Object.fromEntries(
          shape.parts.map((part, index) => [`p${index}`, (p: AnyBuilder) => add(p, part, began, names)] as const)
        )
        builder = shape.kind === "all"
          ? untyped(builder.all(name, parts).select((_, value) => Object.keys(value).length))
          : untyped(builder.branch(name, () => `p${shape.parts.length - 1}`, parts))
      }
    }
  }
  return builder
}

/** The random names are not literals, so the results are not typed. */
function untyped(builder: unknown): AnyBuilder
function untyped(builder: unknown): unknown {
  return builder
}

describe("a random pipeline", () => {
  it("ends with the same result and never begins a recorded step again when its worker is killed at random records", async () => {
    const seed = process.env["STINT_PROPERTY_SEED"]
    await FastCheck.assert(
      FastCheck.asyncProperty(shapes, FastCheck.array(FastCheck.nat(4), { minLength: 1 }), async (all, dice) => {
        let roll = 0
        const program = Effect.gen(function*() {
          const calm = yield* outcome(all, () => false)
          const wild = yield* outcome(all, () => dice[roll++ % dice.length] === 0)
          expect(wild).toEqual(calm)
        })
        await Effect.runPromise(Effect.scoped(Effect.provide(program, TestClock.layer())))
      }),
      { numRuns: Number(process.env["STINT_PROPERTY_RUNS"] ?? 10), ...(seed === undefined ? {} : { seed: Number(seed) }) }
    )
  })
})

/** Runs a random pipeline, and lists the steps that began after they were recorded. */
const outcome = Effect.fnUntraced(function*(all: ReadonlyArray<Shape>, dies: () => boolean) {
  const recorded = new Set<string>()
  const again: Array<string> = []
  const pipeline = add(untyped(Pipeline.make("random", { input: Schema.Number })), all, (path) => {
    if (recorded.has(path)) again.push(path)
  }, { next: 0 }).end(Schema.Number)
  const run = yield* PipelineTest.start(pipeline, 1, {
    endpoints: { inner: Inner },
    crash: ({ kind, path }, when) => {
      // The step of the child, which is a separate run.
      if (when === "after" && kind === "step" && path !== "half") recorded.add(path)
      return dies()
    }
  })
  // Time passes until the run has ended.
  const clock = yield* Effect.forkChild(Effect.forever(Effect.andThen(Effect.yieldNow, TestClock.adjust("1 second"))))
  const { output, status } = yield* run.result
  expect(status).toBe("COMPLETED")
  clock.interruptUnsafe()
  return { output, again }
})
