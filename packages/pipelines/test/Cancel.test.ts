/**
 * A caller cancels a run during each kind of node. What the run did before is undone once, and nothing after the node begins, even if the worker
 * is killed during the compensations.
 */
import { describe, expect, it } from "@effect/vitest"
import { Handler } from "@stint/worker"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { Pipeline } from "../src/index.ts"
import { PipelineTest } from "../src/testing/index.ts"

const Slow = Handler.make("slow", { input: Schema.Number, output: Schema.Unknown, run: () => Effect.never })

/** What happened in a run, in order. */
interface World {
  readonly log: Array<string>
  /** Completed when the node under test has begun, for nodes that run in the worker. */
  readonly began: Deferred.Deferred<void>
  /** A step that runs until it is interrupted. */
  readonly endless: Effect.Effect<never>
}

const makeWorld = (): World => {
  const log: Array<string> = []
  const began = Deferred.makeUnsafe<void>()
  const endless = Deferred.succeed(began, undefined).pipe(
    Effect.andThen(Effect.never),
    Effect.onInterrupt(() => Effect.sync(() => void log.push("interrupted")))
  )
  return { log, began, endless }
}

type Run = Pipeline.Pipeline<"p", typeof Schema.Number, Schema.Codec<unknown>, never>

const start = ({ log }: World) =>
  Pipeline.make("p", { input: Schema.Number })
    .step("reserve", (n) => n, { undo: () => void log.push("release") })

/** A pipeline with one node of the kind, which does not end. `works`: the node runs in the worker, which must learn of the cancellation. */
const KINDS: ReadonlyArray<{
  readonly kind: string
  readonly make: (world: World) => Run
  readonly works: boolean
  readonly at: string
}> = [
  {
    kind: "step",
    works: true,
    at: "node",
    make: (world) =>
      start(world).step("node", () => world.endless).step("after", () => void world.log.push("after")).end(Schema.Unknown)
  },
  {
    kind: "run",
    works: false,
    at: "node",
    make: (world) => start(world).run("node", Slow).step("after", () => void world.log.push("after")).end(Schema.Unknown)
  },
  {
    kind: "all",
    works: true,
    at: "node.wait",
    make: (world) =>
      start(world).all("node", {
        work: (p) => p.step("work", () => world.endless),
        wait: (p) => p.sleep("wait", "1 hour").step("waited", () => void world.log.push("after"))
      }).step("after", () => void world.log.push("after")).end(Schema.Unknown)
  },
  {
    kind: "forEach of steps",
    works: true,
    at: "node[0]",
    make: (world) =>
      start(world).select(() => [1, 2]).forEach("node", (n) => {
        world.log.push(`item ${n}`)
        return world.endless
      }, { concurrency: 1 }).step("after", () => void world.log.push("after")).end(Schema.Unknown)
  },
  {
    kind: "forEach of jobs",
    works: false,
    at: "node[1]",
    make: (world) =>
      start(world).select(() => [1, 2]).forEach("node", Slow).step("after", () => void world.log.push("after"))
        .end(Schema.Unknown)
  },
  {
    kind: "branch",
    works: true,
    at: "node",
    make: (world) =>
      start(world).branch("node", (): "one" | "other" => "one", {
        one: (p) => p.step("inner", () => world.endless),
        other: (p) => p.step("never", () => void world.log.push("after"))
      }).step("after", () => void world.log.push("after")).end(Schema.Unknown)
  },
  {
    kind: "sleep",
    works: false,
    at: "node",
    make: (world) => start(world).sleep("node", "30 days").step("after", () => void world.log.push("after")).end(Schema.Unknown)
  },
  {
    kind: "waitFor",
    works: false,
    at: "node",
    make: (world) =>
      start(world).waitFor("node", Schema.Unknown).step("after", () => void world.log.push("after")).end(Schema.Unknown)
  },
  {
    kind: "stream",
    works: true,
    at: "node",
    make: (world) =>
      start(world).stream("node", async function*() {
        yield "chunk"
        await Effect.runPromise(Deferred.succeed(world.began, undefined))
        await new Promise(() => {})
      }).step("after", () => void world.log.push("after")).end(Schema.Unknown)
  }
]

/** When the worker is killed, relative to the record of the compensation, and how often the compensation then ran. */
const CRASHES = [
  { when: undefined, title: "without a crash", releases: 1 },
  { when: "before", title: "with kill -9 before the compensation is recorded", releases: 2 },
  { when: "after", title: "with kill -9 after the compensation is recorded", releases: 1 }
] as const

describe.each(KINDS)("a run that is cancelled during a $kind", ({ at, kind, make, works }) => {
  it.effect.each(CRASHES)("is undone, and nothing after it begins, $title", ({ releases, when }) =>
    Effect.gen(function*() {
      const world = makeWorld()
      const run = yield* PipelineTest.start(make(world), 1, {
        endpoints: { slow: Slow },
        crash: (record, moment) => record.kind === "undo" && moment === when
      })
      yield* works ? Deferred.await(world.began) : run.parked(at)
      yield* run.cancel
      // A repeated cancel changes nothing.
      yield* run.cancel
      // A busy worker asks every second what has arrived.
      yield* TestClock.adjust("3 seconds")
      const { activations, chunks, entries, status } = yield* run.result
      expect(status).toBe("CANCELLED")
      expect(world.log.filter((line) => line === "release")).toHaveLength(releases)
      expect(world.log).not.toContain("after")
      if (works && kind !== "stream") expect(world.log).toContain("interrupted")
      if (kind === "forEach of steps") expect(world.log.filter((line) => line.startsWith("item"))).toEqual(["item 1"])
      expect(chunks).toEqual(kind === "stream" ? ["chunk"] : [])
      expect(entries.filter((entry) => entry.kind === "undo").map(({ path }) => path)).toEqual(["reserve~undo"])
      expect(activations).toBeGreaterThan(when === undefined ? 0 : 1)
    }))
})

describe("a run that is cancelled during its compensations", () => {
  it.effect.each(CRASHES)(
    "goes on undoing, and ends with its own failure, $title",
    ({ releases, when }) =>
      Effect.gen(function*() {
        const log: Array<string> = []
        const [began, go] = [Deferred.makeUnsafe<void>(), Deferred.makeUnsafe<void>()]
        const pipeline = Pipeline.make("p", { input: Schema.Number })
          .step("reserve", (n) => n, { undo: () => void log.push("release") })
          .step("charge", (n) => n, {
            undo: () =>
              Effect.andThen(
                Deferred.succeed(began, undefined),
                Effect.andThen(Deferred.await(go), Effect.sync(() => void log.push("refund")))
              )
          })
          .step("ship", () => Effect.fail("no truck"))
          .end(Schema.Unknown)
        const run = yield* PipelineTest.start(pipeline, 1, {
          crash: ({ kind, path }, moment) => kind === "undo" && path === "reserve~undo" && moment === when
        })
        yield* Deferred.await(began)
        yield* run.cancel
        yield* TestClock.adjust("3 seconds")
        yield* Deferred.succeed(go, undefined)
        const { error, status } = yield* run.result
        expect([status, error]).toEqual(["FAILED", "The step \"ship\" failed: no truck"])
        expect(log).toEqual(["refund", ...Array.from({ length: releases }, () => "release")])
      })
  )

  it.effect("leaves the job of a compensation alone", () =>
    Effect.gen(function*() {
      const Release = Handler.make("release", { input: Schema.Number, output: Schema.Unknown, run: () => Effect.void })
      const released = Promise.withResolvers<void>()
      let times = 0
      const pipeline = Pipeline.make("p", { input: Schema.Number })
        .step("reserve", (n) => n, { undo: Release })
        .step("ship", () => Effect.fail("no truck"))
        .end(Schema.Unknown)
      const run = yield* PipelineTest.start(pipeline, 1, {
        endpoints: {
          release: () => {
            times++
            return released.promise
          }
        }
      })
      yield* run.parked("reserve~undo")
      yield* run.cancel
      yield* TestClock.adjust("1 minute")
      released.resolve()
      const { entries, status } = yield* run.result
      expect(status).toBe("FAILED")
      expect(times).toBe(1)
      expect(entries.filter(({ kind }) => kind === "spawn")).toHaveLength(1)
    }))
})
