import { describe, expect, it } from "@effect/vitest"
import { Handler } from "@stint/worker"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { Debugger, FunctionTimer, LineTimer } from "../src/index.ts"
import { MAX_TIMINGS } from "../src/JobTimings.ts"
import { debugged, machine, on, reportIn, runJson, trees } from "./DebuggedWorker.ts"

/** Advances virtual time for plain code that waits. */
const clock = () => {
  const waiting: Array<() => void> = []
  return {
    sleep: () => new Promise<void>((resolve) => void waiting.push(resolve)),
    pass: Effect.fnUntraced(function*(millis: number) {
      // Plain code needs turns of the event loop to reach its next wait.
      for (let turn = 0; turn < 20; turn++) yield* Effect.promise(() => Promise.resolve())
      yield* TestClock.adjust(millis)
      for (const resume of waiting.splice(0)) resume()
      for (let turn = 0; turn < 20; turn++) yield* Effect.promise(() => Promise.resolve())
    })
  }
}

// docs/spec/debugger.md#report
describe("the debugger's report", () => {
  it.effect("is in the output under rp_debugger, with timings, system_info and ready_delay_ms", () => {
    const { layer } = on()
    return Effect.gen(function*() {
      const time = clock()
      const resize = FunctionTimer(async function resize() {
        await time.sleep()
        return 7
      })
      const fiber = yield* Effect.forkChild(runJson(
        Handler.fromFunction(async () => {
          await time.sleep()
          using _ = new LineTimer("all of it")
          await time.sleep()
          const size = await resize()
          return { size }
        }),
        null
      ))
      yield* time.pass(5)
      yield* time.pass(10)
      yield* time.pass(20)
      expect((yield* Fiber.join(fiber)).output).toEqual({
        size: 7,
        rp_debugger: {
          timestamps: [
            { name: "all of it", start: 5, end: 35, duration_ms: 30 },
            { name: "resize", start: 15, end: 35, duration_ms: 20, parent: 0 }
          ],
          system_info: machine,
          ready_delay_ms: expect.any(Number)
        }
      })
    }).pipe(Effect.provide(layer))
  })

  it.effect("lists timed effects to the microsecond", () => {
    const { layer } = on()
    const handler = Handler.make("effects", {
      input: Schema.Unknown,
      output: Schema.Struct({ n: Schema.Int }),
      run: Effect.fnUntraced(function*() {
        yield* Effect.sleep("1500 micros")
        yield* Effect.sleep("2 millis").pipe(
          Debugger.timed("inner"),
          Effect.andThen(Effect.sleep("1 millis")),
          Debugger.timed("outer")
        )
        return { n: 1 }
      })
    })
    return Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(debugged(handler))
      yield* TestClock.adjust("1500 micros")
      yield* TestClock.adjust("2 millis")
      yield* TestClock.adjust("1 millis")
      expect((yield* Fiber.join(fiber)).report.timestamps).toEqual([
        { name: "outer", start: 1.5, end: 4.5, duration_ms: 3 },
        { name: "inner", start: 1.5, end: 3.5, duration_ms: 2, parent: 0 }
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("lists all timings with the same name, in the order of their start", () => {
    const { layer } = on()
    const twice = FunctionTimer("twice", (n: number) => n * 2)
    const handler = Handler.fromFunction(() => {
      const first = new LineTimer("first")
      twice(1)
      first.stop()
      first.stop()
      twice(2)
      return {}
    })
    return Effect.gen(function*() {
      const { report } = yield* debugged(handler)
      expect(trees(report.timestamps)).toEqual([["first", [["twice", []]]], ["twice", []]])
    }).pipe(Effect.provide(layer))
  })

  it.effect(`has at most ${MAX_TIMINGS} timings and the number of omitted ones`, () => {
    const { layer } = on()
    const handler = Handler.fromFunction(() => {
      for (let n = 0; n < MAX_TIMINGS + 5; n++) new LineTimer(`line ${n}`).stop()
      return {}
    })
    return Effect.gen(function*() {
      const { report } = yield* debugged(handler)
      expect(report.timestamps).toHaveLength(MAX_TIMINGS)
      expect(report.timestamps.at(-1)?.name).toBe(`line ${MAX_TIMINGS - 1}`)
      expect(report.timestamps_left_out).toBe(5)
    }).pipe(Effect.provide(layer))
  })

  it.effect("marks timings that are still running at the end of the job as unfinished and ignores their later end", () => {
    const { layer } = on()
    const time = clock()
    let forgotten: LineTimer | undefined
    const handler = Handler.fromFunction(async () => {
      forgotten = new LineTimer("forgotten")
      await time.sleep()
      return {}
    })
    return Effect.gen(function*() {
      const fiber = yield* Effect.forkChild(debugged(handler))
      yield* time.pass(8)
      const { report } = yield* Fiber.join(fiber)
      forgotten?.stop()
      expect(report.timestamps).toEqual([{ name: "forgotten", start: 0, end: 8, duration_ms: 8, unfinished: true }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("contains the fields of plugins, which cannot replace its own", () => {
    const { layer } = on()
    const fields: Debugger.FieldSource = (job) => Effect.succeed({ of: job.id, system_info: "not this", volume: { files: 3 } })
    return Effect.gen(function*() {
      const { output } = yield* runJson(Handler.fromFunction(() => ({})), null, { id: "j1" }, [fields])
      expect(output).toEqual({
        rp_debugger: {
          of: "j1",
          volume: { files: 3 },
          timestamps: [],
          system_info: machine,
          ready_delay_ms: expect.any(Number)
        }
      })
    }).pipe(Effect.provide(layer))
  })

  it.effect("omits the fields of a failing plugin and logs it", () => {
    const { layer, log } = on()
    const fields: Debugger.FieldSource = () => Effect.die(new Error("no fields"))
    return Effect.gen(function*() {
      const { report, status } = yield* debugged(Handler.fromFunction(() => ({})), null, [fields])
      expect(status).toBe("COMPLETED")
      expect(report.timestamps).toEqual([])
      expect(log).toMatchObject([{
        level: "WARN",
        message: expect.stringMatching(/^The debugger's report has no plugin fields.*no fields/s)
      }])
    }).pipe(Effect.provide(layer))
  })
})

describe("a result that cannot contain the report", () => {
  const timed = () => new LineTimer("lines").stop()
  const logged = (lines: ReadonlyArray<{ readonly level: string; readonly message: string }>) =>
    lines.filter(({ level, message }) => level === "INFO" && message.startsWith("rp_debugger: ")).map(({ message }) =>
      reportIn({ rp_debugger: JSON.parse(message.slice("rp_debugger: ".length)) })
    )

  it.effect.each<[string, unknown, unknown]>([
    ["text", "done", "done"],
    ["a number", 0, 0],
    ["null", null, null],
    ["nothing", undefined, null],
    ["a list", [1, { a: 2 }], [1, { a: 2 }]],
    ["a date", new Date(0), "1970-01-01T00:00:00.000Z"]
  ])("such as %s is unchanged, and the report is logged", ([, returned, output]) => {
    const { layer, log } = on()
    return Effect.gen(function*() {
      const result = yield* runJson(
        Handler.fromFunction(() => {
          timed()
          return returned
        }),
        null
      )
      expect(result).toMatchObject({ status: "COMPLETED", output, error: undefined })
      expect(logged(log)).toMatchObject([{ timestamps: [{ name: "lines" }], system_info: machine }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("such as a stream is unchanged, and the report is logged", () => {
    const { layer, log } = on()
    return Effect.gen(function*() {
      const result = yield* runJson(
        Handler.fromFunction(async function*() {
          yield { n: 1 }
          timed()
          yield { n: 2 }
        }, { returnAggregateStream: true }),
        null
      )
      expect(result).toMatchObject({ output: [{ n: 1 }, { n: 2 }], chunks: [{ n: 1 }, { n: 2 }] })
      expect(logged(log)).toMatchObject([{ timestamps: [{ name: "lines" }] }])
    }).pipe(Effect.provide(layer))
  })

  it.effect("does not include {}, which receives the report", () => {
    const { layer, log } = on()
    return Effect.gen(function*() {
      const result = yield* runJson(Handler.fromFunction(() => ({})), null)
      expect(Object.keys(reportIn(result.output))).toEqual(["timestamps", "system_info", "ready_delay_ms"])
      expect(logged(log)).toEqual([])
    }).pipe(Effect.provide(layer))
  })

  it.effect("such as one with its own key rp_debugger is unchanged, and the report is logged with a WARN", () => {
    const { layer, log } = on()
    return Effect.gen(function*() {
      const result = yield* runJson(Handler.fromFunction(() => ({ rp_debugger: "mine", a: 1 })), null)
      expect(result.output).toEqual({ rp_debugger: "mine", a: 1 })
      expect(log.filter(({ level }) => level === "WARN")).toMatchObject([
        { message: expect.stringContaining("already has the key \"rp_debugger\"") }
      ])
      expect(logged(log)).toHaveLength(1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("does not include a failure with an output, which receives the report and keeps its error", () => {
    const { layer } = on()
    return Effect.gen(function*() {
      const result = yield* debugged(Handler.fromFunction(() => ({ error: "too dark", lux: 3 })))
      expect(result).toMatchObject({ status: "FAILED", error: "too dark", output: { lux: 3 } })
      expect(result.report.system_info).toEqual(machine)
    }).pipe(Effect.provide(layer))
  })

  it.effect("such as a failure without an output stays without one, and the report is logged", () => {
    const { layer, log } = on()
    return Effect.gen(function*() {
      const result = yield* runJson(Handler.fromFunction(() => ({ error: "too dark" })), null)
      expect(result).toMatchObject({ status: "FAILED", error: "too dark", output: undefined })
      expect(logged(log)).toHaveLength(1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("such as an exception fails the job as usual, and the report is logged", () => {
    const { layer, log } = on()
    return Effect.gen(function*() {
      const result = yield* runJson(
        Handler.fromFunction(() => {
          using _ = new LineTimer("lines")
          throw new RangeError("too wide")
        }),
        null
      )
      expect(result).toMatchObject({ status: "FAILED", output: undefined })
      expect(JSON.parse(result.error ?? "")).toMatchObject({ error_type: "RangeError", error_message: "too wide" })
      expect(logged(log)).toMatchObject([{ timestamps: [{ name: "lines" }] }])
    }).pipe(Effect.provide(layer))
  })
})
