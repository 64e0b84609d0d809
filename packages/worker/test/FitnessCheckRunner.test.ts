import { afterEach, describe, expect, it } from "@effect/vitest"
import { workerEnvironment } from "@stint/contract/WorkerProtocol"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as fc from "fast-check"
import { createServer } from "node:http"
import { fileURLToPath } from "node:url"
import { FitnessChecks, Handler } from "../src/index.ts"
import * as FitnessCheckRunner from "../src/runtime/FitnessCheckRunner.ts"
import * as ProcessExit from "../src/runtime/ProcessExit.ts"
import * as StartStep from "../src/runtime/StartStep.ts"
import { Memory } from "../src/testing/JobSourceMemory.ts"
import * as PlatformStub from "../src/testing/PlatformStub.ts"
import * as WorkerProcess from "../src/testing/WorkerProcess.ts"
import { JobSource } from "../src/transport/JobSource.ts"
import { job, services, start } from "./MemoryWorker.ts"

const { PLATFORM_WEBHOOK_PING: _, ...onPlatform } = workerEnvironment({
  baseUrl: "http://127.0.0.1:1",
  endpoint: "stub",
  key: "stub-key",
  pingIntervalMs: 10_000,
  prefix: "PLATFORM_"
})

type Check = readonly [name: string, run: Effect.Effect<void, unknown>]

/** Services with these checks, connected to a platform unless `env` says otherwise. Exits of the process are recorded. */
const machine = (checks: ReadonlyArray<Check>, env: { readonly [name: string]: string } = onPlatform) => {
  const { layer, log } = services(env)
  const exits: Array<number> = []
  const exit = Layer.succeed(
    ProcessExit.ProcessExit,
    (code) => Effect.andThen(Effect.sync(() => exits.push(code)), Effect.never)
  )
  const added = Layer.effectDiscard(Effect.gen(function*() {
    const { add } = yield* FitnessChecks.FitnessChecks
    for (const [name, run] of checks) yield* add({ name, run })
  }))
  return { exits, log, layer: Layer.provideMerge(added, Layer.merge(layer, exit)) }
}

/** Runs the checks until they wait for time to pass. */
const check = Effect.gen(function*() {
  const fiber = yield* Effect.forkScoped(Layer.build(FitnessCheckRunner.layer))
  yield* TestClock.adjust(0)
  return fiber
})

const reports = Effect.map(Memory, (memory) => memory.calls().filter(({ kind }) => kind === "ping").map(({ body }) => body))

/** The report of one failing check. */
const reportOf = Effect.fnUntraced(function*(name: string, run: Effect.Effect<void, unknown>) {
  const { exits, layer, log } = machine([[name, run]])
  const sent = yield* Effect.andThen(check, reports).pipe(Effect.provide(layer), Effect.scoped)
  return { exits, sent, log }
})

const unhealthy = (check: string, reason: string) => ({ runpod_version: "0.0.0", status: "unhealthy", check, reason })

const decodeReports = Schema.decodeUnknownSync(
  Schema.Tuple([Schema.Struct({ check: Schema.String, reason: Schema.String })])
)

class Unready extends Schema.TaggedError<Unready>()("Unready", { message: Schema.String }) {}

class ModelMissing extends Schema.TaggedError<ModelMissing>()("ModelMissing", { path: Schema.String }) {}

// docs/spec/fitness-checks.md#a-failed-check, docs/spec/worker-protocol.md#unhealthy-report
describe("fitness checks", () => {
  it.effect("run one after the other in the order in which they were added, before the worker continues", () => {
    const events: Array<string> = []
    const one = (name: string): Check => [
      name,
      Effect.gen(function*() {
        events.push(`${name} began`)
        yield* Effect.sleep("1 second")
        events.push(`${name} ended`)
      })
    ]
    const { exits, layer, log } = machine([one("a"), one("b")])
    return Effect.gen(function*() {
      const fiber = yield* check
      yield* TestClock.adjust("2 seconds")
      expect(Exit.isSuccess(yield* Fiber.await(fiber))).toBe(true)
      expect(events).toEqual(["a began", "a ended", "b began", "b ended"])
      expect(exits).toEqual([])
      expect(yield* reports).toEqual([])
      expect(log).toEqual([
        { level: "DEBUG", message: "Fitness checks passed: a (1000 ms), b (1000 ms).", requestId: undefined }
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("the first failed check is reported and ends the process, and later checks do not run", () => {
    const events: Array<string> = []
    const { exits, layer, log } = machine([
      ["good", Effect.void],
      ["memory", Effect.fail(new Unready({ message: "1 GB is there, 4 GB are required." }))],
      ["later", Effect.sync(() => void events.push("later"))]
    ])
    return Effect.gen(function*() {
      const fiber = yield* check
      expect(exits).toEqual([1])
      expect(fiber.pollUnsafe()).toBeUndefined()
      expect(yield* reports).toEqual([unhealthy("memory", "1 GB is there, 4 GB are required")])
      expect(events).toEqual([])
      expect(log.filter(({ level }) => level === "ERROR").map(({ message }) => message)).toEqual([
        "The fitness check \"memory\" failed: 1 GB is there, 4 GB are required. This worker takes no jobs and exits with code 1."
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect.each<[string, Effect.Effect<void, unknown>, string]>([
    ["a typed failure", Effect.fail(new ModelMissing({ path: "/models" })), `ModelMissing: {"path":"/models"}`],
    ["a failure that is a string", Effect.fail("no GPU"), "no GPU"],
    ["a failure that is an object", Effect.fail({ gpu: 3 }), "{\"gpu\":3}"],
    ["a defect", Effect.die(new TypeError("undefined is not a GPU")), "undefined is not a GPU"],
    [
      "a plain throw",
      Effect.sync(() => JSON.parse("{")),
      "Expected property name or '}' in JSON at position 1 (line 1 column 2)"
    ],
    ["a rejected promise", Effect.promise(() => Promise.reject(new Error("rejected"))), "rejected"],
    ["a rejection in tryPromise without a catch", Effect.tryPromise(() => Promise.reject(new Error("rejected"))), "rejected"],
    ["undefined", Effect.fail(undefined), "undefined"],
    ["a blank message", Effect.fail(" "), "it failed without a reason"],
    ["a check that interrupts itself", Effect.interrupt, "it was interrupted"],
    ["a message of several lines", Effect.fail(new Unready({ message: " line one\n\tline two " })), "line one line two"]
  ])("%s fails the check and is reported as a readable reason", ([, run, reason]) =>
    Effect.gen(function*() {
      const { exits, sent } = yield* reportOf("check", run)
      expect(sent).toEqual([unhealthy("check", reason)])
      expect(exits).toEqual([1])
    }))

  it.effect("a check that takes longer than 60 s fails, even if it is uninterruptible", () =>
    Effect.gen(function*() {
      for (const run of [Effect.never, Effect.uninterruptible(Effect.sleep("1 hour"))]) {
        const { exits, layer } = machine([["gpu", run]])
        yield* Effect.gen(function*() {
          yield* check
          yield* TestClock.adjust(FitnessCheckRunner.CHECK_TIMEOUT - 1)
          expect(exits).toEqual([])
          yield* TestClock.adjust(1)
          expect(yield* reports).toEqual([unhealthy("gpu", "it did not end within 60 s")])
          expect(exits).toEqual([1])
        }).pipe(Effect.provide(layer), Effect.scoped)
      }
    }))

  it.effect("a check that times out releases its resources", () => {
    const events: Array<string> = []
    const hanging = Effect.andThen(
      Effect.acquireRelease(Effect.void, () => Effect.sync(() => void events.push("released"))),
      Effect.never
    )
    const { exits, layer } = machine([])
    return Effect.gen(function*() {
      yield* Layer.build(FitnessChecks.layerOf("held", hanging))
      yield* check
      yield* TestClock.adjust(FitnessCheckRunner.CHECK_TIMEOUT)
      expect(exits).toEqual([1])
      expect(events).toEqual(["released"])
    }).pipe(Effect.provide(layer))
  })

  it.effect("a platform that does not respond delays the exit by 2 s at most", () => {
    const { exits, layer } = machine([["disk", Effect.fail("full")]])
    const silent = Layer.effect(
      JobSource,
      Effect.map(JobSource, (source) => JobSource.of({ ...source, ping: () => Effect.never }))
    )
    return Effect.gen(function*() {
      yield* check
      yield* TestClock.adjust(StartStep.REPORT_TIMEOUT - 1)
      expect(exits).toEqual([])
      yield* TestClock.adjust(1)
      expect(exits).toEqual([1])
    }).pipe(Effect.provide(Layer.provideMerge(silent, layer)))
  })

  it.effect.each([500, "unreachable"] as const)("a failed report (%s) is not repeated and does not delay the exit", (how) => {
    const { exits, layer } = machine([["disk", Effect.fail("full")]])
    return Effect.gen(function*() {
      yield* (yield* Memory).failNext("ping", 1, how)
      yield* check
      expect(exits).toEqual([1])
      expect(yield* reports).toHaveLength(1)
    }).pipe(Effect.provide(layer))
  })

  it("the report contains at most 256 characters each of the reason and the name, and splits no character", () =>
    fc.assert(fc.asyncProperty(
      fc.string({ unit: "grapheme", minLength: 1, maxLength: 400 }).map((text) => `x${text.replaceAll(/\s|\.$/g, "_")}`),
      async (text) => {
        const { sent } = await Effect.runPromise(Effect.provide(reportOf(text, Effect.fail(text)), TestClock.layer()))
        const [{ check, reason }] = decodeReports(sent)
        for (const field of [check, reason]) {
          expect(field.length).toBeLessThanOrEqual(StartStep.MAX_REASON)
          expect(text.startsWith(field)).toBe(true)
          expect(field.isWellFormed()).toBe(true)
          expect(field.length).toBeGreaterThanOrEqual(Math.min(text.length, StartStep.MAX_REASON - 1))
        }
      }
    )))

  it.effect("the worker takes no job before all checks have passed", () => {
    const { layer } = services(onPlatform)
    return Effect.gen(function*() {
      const memory = yield* Memory
      const gate = yield* Deferred.make<void>()
      yield* Layer.build(FitnessChecks.layerOf("gate", Deferred.await(gate)))
      yield* memory.submit(job("j1", "one"))
      yield* Effect.forkScoped(start(Handler.fromFunction(({ input }: { readonly input: unknown }) => input)))
      yield* TestClock.adjust("10 seconds")
      expect(memory.calls().filter(({ kind }) => kind === "take")).toEqual([])
      yield* Deferred.succeed(gate, undefined)
      expect(yield* memory.nextDone).toEqual({ id: "j1", body: { output: "one" } })
    }).pipe(Effect.provide(layer))
  })

  it.effect("no check runs in local test mode", () => {
    const { exits, layer } = machine([["local", Effect.fail("this machine is what it is")]], {})
    return Effect.gen(function*() {
      const fiber = yield* check
      expect(Exit.isSuccess(yield* Fiber.await(fiber))).toBe(true)
      expect(exits).toEqual([])
    }).pipe(Effect.provide(layer))
  })
})

describe("an unfit worker as a process", () => {
  const opened: Array<() => Promise<unknown>> = []
  afterEach(async () => {
    for (const close of opened.splice(0).reverse()) await close()
  })

  const startStub = async () => {
    const stub = await PlatformStub.start()
    opened.push(() => stub.down())
    return stub
  }

  const startUnfit = (env: { readonly [name: string]: string }) => {
    const worker = WorkerProcess.start(fileURLToPath(new URL("./fixtures/unfit.ts", import.meta.url)), { env })
    opened.push(async () => {
      worker.kill("SIGKILL")
      await worker.ended
    })
    return worker
  }

  const REASON = "no disk under /models"

  it.each(["PLATFORM_", "RUNPOD_"] as const)(
    "reports once under %s, takes no job and exits with 1 without cleanup",
    async (prefix) => {
      const stub = await startStub()
      stub.submit("never taken")
      const { code, stderr, stdout } = await startUnfit({ ...stub.environment({ prefix }), CHECK: "rejects" }).ended
      expect(code).toBe(1)
      expect(stderr).toBe("")
      // The check's own finalizers run before its failure is known. The worker's resources are not released.
      expect(stdout.split("\n").filter((line) => /^[a-z]/.test(line)))
        .toEqual(["resource opened", "check began", "check ended", "check released"])
      expect(stdout).toContain(`The fitness check \\"models\\" failed: ${REASON}.`)
      expect([...stub.of("job-take"), ...stub.of("job-take-batch")]).toEqual([])
      const [report, ...more] = stub.of("ping")
      expect(more).toEqual([])
      expect(report?.worker).toBe("stub-worker")
      expect(report?.headers["authorization"]).toBe("stub-key")
      if (prefix === "PLATFORM_") {
        expect(report).toMatchObject({ method: "POST", status: 200 })
        expect(JSON.parse(report?.text ?? "")).toEqual(unhealthy("models", REASON))
      } else {
        expect(report).toMatchObject({ method: "GET", status: 200, query: unhealthy("models", REASON) })
      }
    }
  )

  it.each(["exits with 0", "blocks"])("exits with 1 at once when a listener of `exit` %s", async (listener) => {
    const stub = await startStub()
    const { code, stderr, stdout } = await startUnfit({ ...stub.environment(), CHECK: "rejects", EXIT_LISTENER: listener }).ended
    expect({ code, stderr }).toEqual({ code: 1, stderr: "" })
    expect(stdout).toContain(`The fitness check \\"models\\" failed: ${REASON}.`)
  })

  it("exits with 1 when the platform is down", async () => {
    const stub = await startStub()
    const env = stub.environment()
    await stub.down()
    const { code, stdout } = await startUnfit({ ...env, CHECK: "rejects" }).ended
    expect(code).toBe(1)
    expect(stdout).toContain("The report of the failed check could not be sent")
    expect(stdout).not.toContain("resource closed")
  })

  it("exits with 1 within 2 s when the platform accepts the report and never responds", async () => {
    let asked = 0
    const server = createServer(() => {
      asked = performance.now()
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    opened.push(() => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(resolve))
    })
    const address = server.address()
    const baseUrl = `http://127.0.0.1:${typeof address === "object" ? address?.port : ""}`
    const env = workerEnvironment({ baseUrl, endpoint: "stub", key: "key", pingIntervalMs: 10_000 })
    const { code } = await startUnfit({ ...env, CHECK: "rejects" }).ended
    expect(code).toBe(1)
    const held = performance.now() - asked
    expect(held).toBeGreaterThan(1_500)
    expect(held).toBeLessThan(8_000)
  })

  it("shuts down gracefully on SIGTERM while its checks run", async () => {
    const stub = await startStub()
    const worker = startUnfit({ ...stub.environment(), CHECK: "hangs" })
    await expect.poll(() => worker.stdout(), { timeout: 15_000 }).toContain("check began")
    worker.kill("SIGTERM")
    const { code, stdout } = await worker.ended
    expect(code).toBe(0)
    for (const done of ["check ended", "check released", "resource closed"]) expect(stdout).toContain(done)
    expect(stub.of("ping").map(({ text }) => text).filter((text) => text.includes("unhealthy"))).toEqual([])
  })

  it("takes jobs when the checks pass", async () => {
    const stub = await startStub()
    startUnfit(stub.environment())
    expect(await stub.resultOf(stub.submit("served"))).toEqual({ output: "served" })
    expect(stub.of("ping").filter(({ text }) => text.includes("unhealthy"))).toEqual([])
  })
})
