import { describe, expect, it } from "@effect/vitest"
import { Handler, JobMiddleware } from "@stint/worker"
import { PlatformStub } from "@stint/worker/testing"
import * as WorkerConfig from "@stint/worker/WorkerConfig"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Debugger, FunctionTimer, LineTimer } from "../src/index.ts"
import { reportIn, start } from "./DebuggedWorker.ts"

const work = FunctionTimer("work", (n: number) => n + 1)
const handler = Handler.fromFunction<number>((job) => {
  using _ = new LineTimer("lines")
  return { ü: work(job.input), list: [1, null], nested: { b: 1, a: 2 } }
})

/** The delivered body for this input, as sent over the wire. */
const bodyOf = Effect.fnUntraced(function*(options: Parameters<typeof start>[2]) {
  const stub = yield* PlatformStub.make()
  yield* start(stub, handler, options)
  const id = stub.submit(1)
  yield* Effect.promise(() => stub.resultOf(id))
  return stub.of("job-done", id).map(({ text }) => text)
}, Effect.scoped)

// docs/spec/debugger.md#when-it-is-active
describe("--rp_debugger", () => {
  it.live("adds the report to the output on a platform", () =>
    Effect.gen(function*() {
      const [body = ""] = yield* bodyOf({ argv: ["--rp_debugger"] })
      const { output } = JSON.parse(body)
      expect(output).toMatchObject({ ü: 2, list: [1, null], nested: { b: 1, a: 2 } })
      expect(reportIn(output).timestamps).toMatchObject([{ name: "lines" }, { name: "work", parent: 0 }])
    }))

  it.live("leaves every byte of the output unchanged when absent", () =>
    Effect.gen(function*() {
      expect(yield* bodyOf({})).toEqual(yield* bodyOf({ without: true }))
    }))

  it.effect.each<[string, WorkerConfig.Environment | undefined, ReadonlyArray<string>]>([
    ["has no effect in local test mode", { PLATFORM_ENDPOINT_ID: "e" }, ["--rp_debugger"]],
    ["has no effect with --test_input, regardless of the variables", undefined, ["--rp_debugger", "--test_input", "{}"]]
  ])("%s", ([, env, argv]) =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const config = Layer.effect(
        WorkerConfig.WorkerConfig,
        Effect.orDie(WorkerConfig.read(env ?? stub.environment(), argv))
      )
      expect(yield* Effect.provide(Debugger.middleware.setup, config)).toBe(yield* JobMiddleware.none.setup)
    }))
})

describe("ready_delay_ms", () => {
  it.live("is the time from the start of the process to the first take, the same for every job", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const before = performance.now()
      yield* start(stub, handler, { argv: ["--rp_debugger"] })
      yield* Effect.promise(() => stub.until(() => stub.of("job-take").length > 0))
      const taking = performance.now()
      const delays: Array<number> = []
      for (let n = 0; n < 2; n++) {
        // The job arrives later, which must not count as the worker's delay.
        while (performance.now() < taking + 50 * (n + 1));
        const id = stub.submit(n)
        yield* Effect.promise(() => stub.resultOf(id))
        const { output } = JSON.parse(stub.of("job-done", id)[0]?.text ?? "")
        delays.push(reportIn(output).ready_delay_ms)
      }
      expect(delays[0]).toBeGreaterThanOrEqual(before - 0.001)
      expect(delays[0]).toBeLessThan(taking + 40)
      expect(delays[1]).toBe(delays[0])
    }))
})

describe("a stopped job", () => {
  it.live("delivers no result and no report when there is a debugger", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const running: Array<LineTimer> = []
      const { log } = yield* start(
        stub,
        Handler.fromFunction<string>((job, { signal }) => {
          running.push(new LineTimer("left open"))
          stub.recheck()
          return job.input === "stay"
            ? new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))))
            : {}
        }),
        { argv: ["--rp_debugger"] }
      )
      const id = stub.submit("stay")
      yield* Effect.promise(() => stub.until(() => running.length === 1))
      stub.stop(id)
      const next = stub.submit("go")
      yield* Effect.promise(() => stub.resultOf(next))
      expect(stub.of("job-done", id)).toEqual([])
      expect(log.filter(({ message }) => message.startsWith("rp_debugger"))).toEqual([])
    }))
})
