/**
 * Random pipelines for RandomRuns.test.ts and for the same test over the platform's stores (apps/cli/test/RandomRuns.long.test.ts).
 *
 * Their steps and jobs fail, they are cancelled, wait for events with timeouts, and lose their worker at random records. Whatever happens, the
 * journal of the run is consistent: nothing that is recorded begins again, everything is undone once and in reverse order, and at most `concurrency`
 * items of a list run at the same time.
 */
import { expect } from "@effect/vitest"
import { nodeOf } from "@stint/contract/NodeAddress"
import type { JournalEntry } from "@stint/contract/RunJournal"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as FastCheck from "fast-check"
import type { Builder } from "../src/Builder.ts"
import { Pipeline } from "../src/index.ts"
import type { PipelineTest } from "../src/testing/index.ts"

/** The failure of a step that is meant to fail. */
class StepFailed extends Schema.TaggedError<StepFailed>()("StepFailed", { message: Schema.String }) {}

/** A node, with what happens in it. `fails`: how many of its attempts fail. */
type Shape =
  | {
    readonly kind: "step" | "run"
    readonly fails: number
    readonly retry: number
    readonly undo: boolean
    readonly seconds: number
  }
  | { readonly kind: "sleep"; readonly seconds: number }
  | { readonly kind: "wait"; readonly seconds: number; readonly eventAt: number; readonly hasDefault: boolean }
  | { readonly kind: "all" | "branch"; readonly parts: ReadonlyArray<ReadonlyArray<Shape>> }
  | {
    readonly kind: "forEach" | "jobs"
    readonly items: number
    readonly concurrency: number
    /** The item that fails; none if there is no such item. */
    readonly failing: number
    readonly undo: boolean
    readonly seconds: number
  }

const seconds = FastCheck.nat(3)

const { shapes } = FastCheck.letrec<{ shapes: ReadonlyArray<Shape>; shape: Shape }>((tie) => ({
  shape: FastCheck.oneof(
    { depthSize: "small", withCrossShrink: true },
    FastCheck.record({
      kind: FastCheck.constantFrom("step" as const, "run" as const),
      fails: FastCheck.oneof({ arbitrary: FastCheck.constant(0), weight: 4 }, {
        arbitrary: FastCheck.integer({ min: 1, max: 3 }),
        weight: 1
      }),
      retry: FastCheck.nat(2),
      undo: FastCheck.boolean(),
      seconds
    }),
    FastCheck.record({ kind: FastCheck.constant("sleep" as const), seconds }),
    FastCheck.record({
      kind: FastCheck.constant("wait" as const),
      seconds: FastCheck.integer({ min: 1, max: 4 }),
      eventAt: FastCheck.nat(12),
      hasDefault: FastCheck.boolean()
    }),
    FastCheck.record({
      kind: FastCheck.constantFrom("forEach" as const, "jobs" as const),
      items: FastCheck.nat(5),
      concurrency: FastCheck.integer({ min: 1, max: 3 }),
      failing: FastCheck.integer({ min: 2, max: 12 }),
      undo: FastCheck.boolean(),
      seconds
    }),
    FastCheck.record({
      kind: FastCheck.constantFrom("all" as const, "branch" as const),
      parts: FastCheck.array(tie("shapes"), { minLength: 1, maxLength: 3 })
    })
  ),
  shapes: FastCheck.array(tie("shape"), { minLength: 1, maxLength: 4 })
}))

type AnyBuilder = Builder<string, typeof Schema.Number, number, { readonly input: number }, never>

/** The random names are not literals, so the results are not typed. */
function untyped(builder: unknown): AnyBuilder
function untyped(builder: unknown): unknown {
  return builder
}

/** What happened in a run. */
const makeWorld = () => {
  /** Keys of what is recorded: `path` of steps, `path~undo` of compensations. */
  const recorded = new Set<string>()
  const faults: Array<string> = []
  const running = new Map<string, number>()
  const undone = new Map<string, unknown>()
  /** The paths of steps, jobs and items that have compensations, by address. */
  const withUndo = new Set<string>()
  const events: Array<{ readonly name: string; readonly at: number }> = []
  const begin = (path: string) => {
    if (recorded.has(path)) faults.push(`${path} began again`)
  }
  return { begin, events, faults, recorded, running, undone, withUndo }
}

type World = ReturnType<typeof makeWorld>

/** The pipeline of the jobs. Its output is `n + 1`, unless it fails. */
export const Job = Pipeline.make("job", {
  input: Schema.Struct({ n: Schema.Number, fails: Schema.Boolean, seconds: Schema.Number })
})
  .sleep("nap", ({ input }) => `${input.seconds} seconds`)
  .select(({ input }) => input)
  .step("work", ({ fails, n }) => {
    if (fails) throw new Error(`job ${n} fails`)
    return n + 1
  })
  .end(Schema.Number)

const add = (start: AnyBuilder, all: ReadonlyArray<Shape>, world: World, names: { next: number }): AnyBuilder => {
  let builder = start
  for (const shape of all) {
    const name = `n${names.next++}`
    const undo = (value: unknown, { path }: { readonly path: string }) => {
      world.begin(path)
      world.undone.set(path.replace(/~undo$/, ""), value)
    }
    const work = (limit: number) =>
      Effect.fnUntraced(function*(n: number, path: string, fails: boolean, millis: number) {
        world.begin(path)
        const node = nodeOf(path)
        const count = (world.running.get(node) ?? 0) + 1
        world.running.set(node, count)
        if (count > limit) world.faults.push(`${count} of ${node} ran at the same time`)
        yield* Effect.sleep(millis).pipe(
          Effect.ensuring(Effect.sync(() => world.running.set(node, (world.running.get(node) ?? 1) - 1)))
        )
        if (fails) return yield* new StepFailed({ message: `${path} fails` })
        return n + 1
      })
    switch (shape.kind) {
      case "step": {
        const { fails, retry } = shape
        const run = work(1)
        builder = untyped(builder.step(
          name,
          (n: number, _: unknown, { attempt, path }: { readonly path: string; readonly attempt: number }) =>
            run(n, path, attempt <= fails, shape.seconds * 1_000),
          { retry, ...(shape.undo ? { undo } : {}) }
        ))
        break
      }
      case "run":
        builder = untyped(
          builder.select((_, n) => ({ n, fails: shape.fails > 1, seconds: shape.seconds }))
            .run(name, Job, { retry: shape.retry, ...(shape.undo ? { undo } : {}) })
        )
        break
      case "sleep":
        builder = untyped(builder.sleep(name, `${shape.seconds} seconds`))
        break
      case "wait":
        world.events.push({ name, at: shape.eventAt })
        builder = untyped(
          untyped(builder.waitFor(name, Schema.Number, {
            timeout: `${shape.seconds} seconds`,
            ...(shape.hasDefault ? { onTimeout: () => -1 } : {})
          }))
        )
        break
      case "forEach": {
        const run = work(shape.concurrency)
        builder = untyped(
          builder.select((_, n) => Array.from({ length: shape.items }, (_value, index) => n + index)).forEach(
            name,
            (n: number, _: unknown, { path }: { readonly path: string }) =>
              run(n, path, path.endsWith(`[${shape.failing}]`), shape.seconds * 1_000 * (1 + n % 2)),
            { concurrency: shape.concurrency, ...(shape.undo ? { undo } : {}) }
          ).select((_, list) => list.length)
        )
        break
      }
      case "jobs":
        builder = untyped(
          builder.select((_, n) =>
            Array.from({ length: shape.items }, (_value, index) => ({
              n: n + index,
              fails: index === shape.failing,
              seconds: shape.seconds * (1 + index % 2)
            }))
          )
            .forEach(name, Job, { concurrency: shape.concurrency, ...(shape.undo ? { undo } : {}) })
            .select((_, list) => list.length)
        )
        break
      case "all":
      case "branch": {
        const parts = Object.fromEntries(
          shape.parts.map((part, index) => [`p${index}`, (p: AnyBuilder) => add(p, part, world, names)] as const)
        )
        builder = shape.kind === "all"
          ? untyped(builder.all(name, parts).select((_, value) => Object.keys(value).length))
          : untyped(builder.branch(name, () => `p${shape.parts.length - 1}`, parts))
      }
    }
    if ((shape.kind === "step" || shape.kind === "run" || shape.kind === "forEach" || shape.kind === "jobs") && shape.undo) {
      world.withUndo.add(name)
    }
  }
  return builder
}

/** Longer than any run takes. Seconds on the test clock. */
const LONGEST = 600

const isCompleted = ({ body, kind }: JournalEntry) => kind === "end" && JSON.stringify(body ?? null).includes("\"COMPLETED\"")

/** What is done according to the journal, in the order in which it was recorded: the paths without the number of an attempt. */
const doneIn = (entries: ReadonlyArray<JournalEntry>, { withUndo }: World): ReadonlyArray<string> =>
  entries.filter((entry) =>
    withUndo.has(nodeOf(entry.path).split(".").at(-1) ?? "") && !entry.path.includes("~undo") &&
    !entry.path.endsWith("~0") && (entry.kind === "step" || isCompleted(entry))
  ).map(({ path }) => path.replace(/~\d+$/, ""))

/** Checks a run that has ended. */
const check = (result: Effect.Success<Run["result"]>, world: World, isCancelled: boolean): void => {
  const { entries, error, status } = result
  const undone = entries.filter(({ kind }) => kind === "undo").map(({ path }) => path.replace(/~undo$/, ""))
  const settled = entries.filter(({ kind }) => ["step", "failed", "event", "end"].includes(kind)).map(({ path }) => path)
  expect(new Set(settled).size).toBe(settled.length)
  expect(world.faults).toEqual([])
  expect(error ?? "").not.toContain("Not undone")
  if (!isCancelled) expect(status).not.toBe("CANCELLED")
  if (status === "COMPLETED") expect(undone).toEqual([])
  else {
    const done = doneIn(entries, world)
    expect([undone, error]).toEqual([done.toReversed(), error])
  }
}

/** A run, as `PipelineTest` has it. */
export type Run = Pick<PipelineTest.TestRun<unknown>, "cancel" | "entries" | "event"> & {
  readonly result: Effect.Effect<Pick<PipelineTest.Result<unknown>, "entries" | "error" | "output" | "status">>
}

/** Where random pipelines run. */
export interface Host<R> {
  readonly start: (
    pipeline: Pipeline.Pipeline<string, typeof Schema.Number, Schema.Codec<unknown>, never>,
    crash: NonNullable<PipelineTest.Options<never>["crash"]>
  ) => Effect.Effect<Run, never, R>
  /** Runs everything that can run without time passing. */
  readonly settle: Effect.Effect<void>
}

/** Runs a random pipeline and checks what happened. `dies`: whether the worker is killed at a record. `cancelAt`: after how many records a caller cancels the run. */
const runRandom = Effect.fnUntraced(function*<R>(
  { settle, start }: Host<R>,
  all: ReadonlyArray<Shape>,
  dies: () => boolean,
  cancelAt: number
) {
  const world = makeWorld()
  const pipeline = add(untyped(Pipeline.make("random", { input: Schema.Number })), all, world, { next: 0 }).end(Schema.Unknown)
  let stored = 0
  const run = yield* start(pipeline, ({ kind, path }, when) => {
    // `nap` and `work` are the nodes of a job, which is a run of its own.
    if (when === "after" && (kind === "step" || kind === "undo") && path !== "work") world.recorded.add(path)
    if (when === "after") stored++
    return dies()
  })
  // Time passes until the run has ended.
  let now = 0
  let isCancelled = false
  const clock = yield* Effect.forkChild(Effect.gen(function*() {
    while (now < LONGEST) {
      yield* settle
      for (const { at, name } of world.events) if (at === now) yield* run.event(name, { data: now })
      if (stored >= cancelAt && !isCancelled) {
        isCancelled = true
        yield* run.cancel
      }
      now++
      yield* TestClock.adjust("1 second")
    }
    return expect.fail(
      `The run has not ended after ${LONGEST} s: ${JSON.stringify(run.entries().map(({ kind, path }) => `${kind} ${path}`))}`
    )
  }))
  const result = yield* Effect.raceFirst(run.result, Fiber.join(clock))
  clock.interruptUnsafe()
  check(result, world, isCancelled)
  return { status: result.status, hasEvents: world.events.length > 0, isCancelled, output: result.output }
})

const numbers = FastCheck.array(FastCheck.nat(6), { minLength: 1 })

/** Rolls the dice in turn. A zero kills the worker. */
const rolling = (dice: ReadonlyArray<number>) => {
  let roll = 0
  return () => dice[roll++ % dice.length] === 0
}

const seed = process.env["STINT_PROPERTY_SEED"]

/** Runs random pipelines until their end, once calm and once with a worker that is killed. `provided`: runs a program with the host. */
export const endsAlike = <R>(
  host: Host<R>,
  numRuns: number,
  provided: (program: Effect.Effect<void, never, R>) => Promise<void>
): Promise<void> =>
  FastCheck.assert(
    FastCheck.asyncProperty(shapes, numbers, (all, dice) =>
      provided(Effect.gen(function*() {
        const calm = yield* runRandom(host, all, () => false, Infinity)
        const wild = yield* runRandom(host, all, rolling(dice), Infinity)
        // An event may come before or after a timeout, when a killed worker has lost time.
        if (!calm.hasEvents) expect(wild).toEqual(calm)
      }))),
    { numRuns, ...(seed === undefined ? {} : { seed: Number(seed) }) }
  )

/** Runs random pipelines whose worker is killed and which a caller cancels. */
export const undoesAll = <R>(
  host: Host<R>,
  numRuns: number,
  provided: (program: Effect.Effect<void, never, R>) => Promise<void>
): Promise<void> =>
  FastCheck.assert(
    FastCheck.asyncProperty(shapes, numbers, FastCheck.nat(20), (all, dice, cancelAt) =>
      provided(Effect.asVoid(runRandom(host, all, rolling(dice), cancelAt)))),
    { numRuns, ...(seed === undefined ? {} : { seed: Number(seed) }) }
  )
