import { describe, expect, expectTypeOf, it } from "@effect/vitest"
import { Handler, RunningJob } from "@stint/worker"
import { WorkerTest } from "@stint/worker/testing"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as Tracer from "effect/Tracer"
import * as fc from "fast-check"
import { setImmediate } from "node:timers/promises"
import { Debugger, FunctionTimer, LineTimer } from "../src/index.ts"
import { debugged, on, reportIn, runJson, type Tree, trees } from "./DebuggedWorker.ts"

/** Runs plain code as a handler with a debugger, in real time. */
const timingsOf = (code: () => unknown) =>
  Effect.map(
    debugged(Handler.fromFunction(async () => {
      await code()
      return {}
    })),
    ({ report }) => report.timestamps
  ).pipe(Effect.provide(on().layer), Effect.runPromise)

describe("LineTimer", () => {
  it("ends when its block returns or throws", async () => {
    const timings = await timingsOf(async () => {
      {
        using _ = new LineTimer("using")
      }
      {
        await using _ = new LineTimer("await using")
        await setImmediate()
      }
      try {
        using _ = new LineTimer("throws")
        throw new Error("over")
      } catch {
        new LineTimer("after").stop()
      }
    })
    expect(trees(timings)).toEqual([["using", []], ["await using", []], ["throws", []], ["after", []]])
    expect(timings.every(({ unfinished }) => unfinished === undefined)).toBe(true)
  })

  it("belongs to the next containing timing when it outlives its parent", async () => {
    const timings = await timingsOf(() => {
      const a = new LineTimer("a")
      const b = new LineTimer("b")
      const c = new LineTimer("c")
      b.stop()
      const d = new LineTimer("d")
      const deadline = performance.now() + 1
      while (performance.now() < deadline);
      c.stop()
      d.stop()
      a.stop()
    })
    expect(trees(timings)).toEqual([["a", [["b", []], ["c", []], ["d", []]]]])
  })

  it("does nothing outside a job", () => {
    const timer = new LineTimer("nowhere")
    timer.stop()
    expect(RunningJob.current()).toBeUndefined()
  })
})

describe("FunctionTimer", () => {
  it("preserves the type, the name, `this`, the arguments and the result", async () => {
    class Codec {
      readonly factor = 3
      decode = FunctionTimer(function decode(this: Codec, n: number, by = 1) {
        return n * by * this.factor
      })
    }
    const named = FunctionTimer("named", async (text: string) => text.length)
    expectTypeOf(named).toEqualTypeOf<(text: string) => Promise<number>>()
    function* count(to: number) {
      for (let n = 1; n <= to; n++) yield n
      return "end" as const
    }
    const counting = FunctionTimer(count)
    expectTypeOf(counting).toEqualTypeOf(count)
    const timings = await timingsOf(async () => {
      expect(new Codec().decode(2, 5)).toBe(30)
      expect(await named("four")).toBe(4)
      expect([...counting(3)]).toEqual([1, 2, 3])
      const generator = counting(3)
      const toArray: () => Array<number> = Reflect.get(generator, "toArray")
      expect(toArray.call(generator)).toEqual([1, 2, 3])
    })
    expect(counting.name).toBe("count")
    expect(counting.length).toBe(1)
    expect(timings.map(({ name }) => name)).toEqual(["decode", "named", "count", "count"])
    // The same outside a job, where nothing is timed.
    expect(new Codec().decode(2, 5)).toBe(30)
    expect([...counting(3)]).toEqual([1, 2, 3])
  })

  it("passes on exceptions and rejections, which end the timing", async () => {
    const error = new Error("broken")
    const throws = FunctionTimer("throws", () => {
      throw error
    })
    const rejects = FunctionTimer("rejects", async () => {
      await setImmediate()
      throw error
    })
    const generates = FunctionTimer("generates", function*() {
      yield 1
      throw error
    })
    const timings = await timingsOf(async () => {
      expect(() => throws()).toThrow(error)
      await expect(rejects()).rejects.toBe(error)
      expect(() => [...generates()]).toThrow(error)
    })
    expect(timings.map(({ name, unfinished }) => [name, unfinished])).toEqual([
      ["throws", undefined],
      ["rejects", undefined],
      ["generates", undefined]
    ])
  })

  it("times a generator from its first step to any kind of end, with its line timers nested", async () => {
    const generate = FunctionTimer(async function* generate() {
      for (let n = 0; n < 3; n++) {
        new LineTimer(`line ${n}`).stop()
        yield n
      }
    })
    const timings = await timingsOf(async () => {
      generate()
      for await (const n of generate()) {
        using _ = new LineTimer("outside")
        if (n === 1) break
      }
      await generate().return(undefined)
    })
    expect(trees(timings)).toEqual([["generate", [["line 0", []], ["line 1", []]]], ["outside", []], ["outside", []]])
    expect(timings.every(({ unfinished }) => unfinished === undefined)).toBe(true)
  })

  it("does not start a lazy thenable", async () => {
    let begun = 0
    const query = FunctionTimer("query", () => ({
      then: (resolve: (rows: number) => void) => {
        begun++
        resolve(3)
      }
    }))
    const timings = await timingsOf(async () => {
      const lazy = query()
      await setImmediate()
      expect(begun).toBe(0)
      expect(await lazy).toBe(3)
    })
    expect(begun).toBe(1)
    expect(timings.map(({ name }) => name)).toEqual(["query"])
  })

  it("throws a TypeError for a name without a function", () => {
    // @ts-expect-error
    expect(() => FunctionTimer("resize")).toThrow("FunctionTimer(\"resize\") needs a function as its second argument.")
  })
})

describe("timers of concurrent jobs", () => {
  it("never mix in any interleaving", async () => {
    const inner = FunctionTimer("inner", async (tag: string, turns: number) => {
      using _ = new LineTimer(`${tag}: line`)
      for (let turn = 0; turn < turns; turn++) await setImmediate()
    })
    const handler = Handler.fromFunction<{ tag: string; turns: ReadonlyArray<number> }>(async ({ input: { tag, turns } }) => {
      for (const count of turns) {
        using _ = new LineTimer(`${tag}: round`)
        await inner(tag, count)
      }
      return {}
    })
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.array(fc.nat(4), { minLength: 1, maxLength: 5 }), { minLength: 2, maxLength: 5 }),
        async (jobs) => {
          const results = await Effect.forEach(
            jobs,
            (turns, job) => runJson(handler, { tag: `job ${job}`, turns }),
            { concurrency: "unbounded" }
          ).pipe(Effect.provide(on().layer), Effect.runPromise)
          for (const [job, turns] of jobs.entries()) {
            expect(trees(reportIn(results[job]?.output).timestamps)).toEqual(
              turns.map(() => [`job ${job}: round`, [["inner", [[`job ${job}: line`, []]]]]])
            )
          }
        }
      ),
      { numRuns: 50 }
    )
  })
})

describe("nesting", () => {
  /** A program of timers: the kind of each and the nested programs. */
  interface Program {
    readonly kind: "line" | "function" | "async" | "generator" | "effect" | "together"
    readonly parts: ReadonlyArray<Program>
  }

  const { program } = fc.letrec<{ program: Program }>((tie) => ({
    program: fc.record({
      kind: fc.constantFrom("line", "function", "async", "generator", "effect", "together"),
      parts: fc.oneof({ maxDepth: 4 }, fc.constant([]), fc.array(tie("program"), { maxLength: 4 }))
    })
  }))

  /** Runs the programs and returns the expected report. Concurrent parts are functions. */
  const run = async (programs: ReadonlyArray<Program>, name: string): Promise<ReadonlyArray<Tree>> => {
    const all: Array<Tree> = []
    for (const [index, one] of programs.entries()) all.push(...await runOne(one, `${name}.${index}`))
    return all
  }
  const runOne = async ({ kind, parts }: Program, name: string): Promise<ReadonlyArray<Tree>> => {
    switch (kind) {
      case "line": {
        using _ = new LineTimer(name)
        return [[name, await run(parts, name)]]
      }
      case "function":
        new LineTimer(`${name}.before`).stop()
        return [[`${name}.before`, []], [name, await FunctionTimer(name, () => run(parts, name))()]]
      case "async":
        return [[
          name,
          await FunctionTimer(name, async () => {
            await setImmediate()
            return run(parts, name)
          })()
        ]]
      case "generator": {
        const generate = FunctionTimer(name, async function*() {
          for (const [index, part] of parts.entries()) yield await runOne(part, `${name}.${index}`)
        })
        const inner: Array<Tree> = []
        for await (const trees of generate()) inner.push(...trees)
        return [[name, inner]]
      }
      case "effect":
        return [[
          name,
          await RunningJob.runPromise(
            Effect.sleep(0).pipe(Debugger.timed(`${name}.inside`), Debugger.timed(name))
          ).then((): ReadonlyArray<Tree> => [[`${name}.inside`, []]])
        ]]
      case "together": {
        const each = parts.map((part, index) =>
          FunctionTimer(`${name}.${index}`, async () => {
            await setImmediate()
            return runOne(part, `${name}.${index}.it`)
          })
        )
        const inner = await Promise.all(each.map((piece) => piece()))
        return inner.map((trees, index) => [`${name}.${index}`, trees])
      }
    }
  }

  it("is reported for any depth and kind, with each timing inside its parent", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(program, { maxLength: 3 }), async (programs) => {
        let expected: ReadonlyArray<Tree> = []
        const timings = await timingsOf(async () => {
          expected = await run(programs, "p")
        })
        expect(trees(timings)).toEqual(expected)
        for (const { duration_ms, end, parent, start } of timings) {
          expect(Math.round((end - start) * 1000)).toBe(Math.round(duration_ms * 1000))
          const whole = timings[parent ?? -1]
          if (whole === undefined) continue
          expect(whole.start).toBeLessThanOrEqual(start)
          expect(whole.end).toBeGreaterThanOrEqual(end)
        }
      }),
      { numRuns: 100 }
    )
  })
})

describe("spans", () => {
  interface Seen {
    readonly name: string
    readonly parent: string | undefined
    readonly start: bigint
    end: bigint
    failed: boolean
  }

  const tracer = () => {
    const spans: Array<Seen> = []
    const layer = Layer.succeed(
      Tracer.Tracer,
      Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          const parent = Option.getOrUndefined(options.parent)
          const seen: Seen = {
            name: options.name,
            parent: parent?._tag === "Span" ? parent.name : undefined,
            start: options.startTime,
            end: 0n,
            failed: false
          }
          spans.push(seen)
          const end = span.end.bind(span)
          span.end = (at, exit) => {
            seen.end = at
            seen.failed = exit._tag === "Failure"
            end(at, exit)
          }
          return span
        }
      })
    )
    return { layer, spans }
  }

  const step = FunctionTimer("step", async () => {
    using _ = new LineTimer("line")
    const inner = new LineTimer("inner line")
    await RunningJob.runPromise(Effect.sleep(7).pipe(Debugger.timed("effect")))
    inner.stop()
    new LineTimer("second line").stop()
  })
  const handler = Handler.fromFunction(async () => {
    using _ = new LineTimer("outer line")
    await step()
    await FunctionTimer("fails", () => Promise.reject(new Error("no")))().catch(() => {})
    return {}
  })
  const expected = [
    ["outer line", "handler"],
    ["step", "outer line"],
    ["line", "step"],
    ["inner line", "line"],
    ["effect", "inner line"],
    ["second line", "line"],
    ["fails", "outer line"]
  ]

  /** Whether the span is neither the job's nor its handler's. */
  const isTimed = ({ name }: { readonly name: string }) => !["process handler", "handler"].includes(name)

  const drive = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
    Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(effect)
      while (fiber.pollUnsafe() === undefined) {
        yield* TestClock.adjust(1)
        yield* Effect.promise(() => setImmediate())
      }
      return yield* Fiber.join(fiber)
    })

  it.effect("have the same durations and the same nesting as the timings", () => {
    const { layer, spans } = tracer()
    return Effect.gen(function*() {
      const { report } = yield* drive(debugged(handler))
      const timed = spans.filter(isTimed)
      expect(timed.map(({ name, parent }) => [name, parent])).toEqual(expected)
      expect(timed.map(({ end, name, start }) => [name, Number(end - start) / 1e6])).toEqual(
        report.timestamps.map(({ duration_ms, name }) => [name, duration_ms])
      )
      expect(report.timestamps.find(({ name }) => name === "effect")?.duration_ms).toBeGreaterThanOrEqual(7)
      expect(timed.filter(({ failed }) => failed).map(({ name }) => name)).toEqual(["fails"])
    }).pipe(Effect.provide([on().layer, layer]))
  })

  it.effect("are recorded without a debugger and do not affect the output", () => {
    const { layer, spans } = tracer()
    return Effect.gen(function*() {
      const { output } = yield* drive(WorkerTest.runJson(handler, null))
      expect(output).toBeUndefined()
      expect(spans.filter(isTimed).map(({ name, parent }) => [name, parent])).toEqual(expected)
      expect(spans.every(({ end }) => end > 0n)).toBe(true)
    }).pipe(Effect.provide(layer))
  })

  it.effect("end when their effect fails or is interrupted", () => {
    const { layer, spans } = tracer()
    return Effect.gen(function*() {
      yield* Effect.ignore(Debugger.timed("fails")(Effect.fail("no")))
      const fiber = yield* Effect.forkChild(Debugger.timed("interrupted")(Effect.never), { startImmediately: true })
      yield* TestClock.adjust(3)
      yield* Fiber.interrupt(fiber)
      expect(spans.map(({ end, failed, name, start }) => [name, failed, Number(end - start)])).toEqual([
        ["fails", true, 0],
        ["interrupted", true, 3_000_000]
      ])
    }).pipe(Effect.provide(layer))
  })
})

describe("without debugger and tracer", () => {
  it.effect("a timer passes the same values to functions and the same context to effects", () =>
    Effect.gen(function*() {
      const promise = Promise.resolve(1)
      const result = yield* WorkerTest.runJson(
        Handler.fromFunction(async () => {
          using _ = new LineTimer("unused")
          const before = RunningJob.current()
          const seen = FunctionTimer("f", () => RunningJob.current())()
          return { same: seen === before, promise: FunctionTimer("p", () => promise)() === promise }
        }),
        null
      )
      expect(result.output).toEqual({ same: true, promise: true })
      const context = yield* Effect.context()
      const inside = yield* Debugger.timed("unused")(Effect.context())
      expect(Context.isContext(inside)).toBe(true)
      expect(inside).toBe(context)
    }))

  it.effect("a handler with timed effects behaves the same as without them", () =>
    Effect.gen(function*() {
      const handler = Handler.make("timed", {
        input: Schema.Int,
        output: Schema.Struct({ n: Schema.Int }),
        run: (n) => Debugger.timed("work")(Effect.succeed({ n }))
      })
      expect(yield* WorkerTest.run(handler, 3)).toMatchObject({ output: { n: 3 } })
    }))
})
