import { afterEach, describe, expect, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Schema from "effect/Schema"
import { EmbeddedWorker, FitnessChecks, Handler, Worker } from "../src/index.ts"
import * as PlatformStub from "../src/testing/PlatformStub.ts"

const opened: Array<() => Promise<unknown>> = []

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

/** A service that the worker and the rest of the program share. */
class Counter extends Context.Service<Counter, { readonly next: Effect.Effect<number> }>()("test/Counter") {
  static readonly layer = Layer.sync(Counter, () => {
    let count = 0
    return { next: Effect.sync(() => ++count) }
  })
}

const Count = Handler.make("count", {
  input: Schema.Struct({}),
  output: Schema.Number,
  run: () => Effect.flatMap(Counter, ({ next }) => next)
})

const settings = (env: Record<string, string>) => ConfigProvider.layer(ConfigProvider.fromEnv({ env }))

const startStub = async () => {
  const stub = await PlatformStub.start()
  opened.push(() => stub.down())
  return { stub, config: settings(stub.environment({ pingIntervalMs: 50 })) }
}

const start = <R, E>(app: Layer.Layer<R, E>) => {
  const runtime = ManagedRuntime.make(app)
  opened.push(() => runtime.dispose())
  return runtime
}

const failureOf = async <R, E>(app: Layer.Layer<R, E>) => {
  const exit = await Effect.runPromiseExit(Effect.scoped(Layer.build(app)))
  if (Exit.isSuccess(exit)) return undefined
  const [reason] = exit.cause.reasons
  return reason?._tag === "Fail" ? String(reason.error) : reason
}

// docs/learning/write-a-worker.md
describe("a worker embedded in a program", () => {
  it("shares the program's layers, and installs no process listeners", async () => {
    const { config, stub } = await startStub()
    const before = ["SIGTERM", "SIGINT", "uncaughtException", "unhandledRejection"].map((event) => process.listenerCount(event))
    const app = EmbeddedWorker.layer(Worker.layer(Count)).pipe(Layer.provideMerge(Counter.layer), Layer.provide(config))
    const runtime = start(app)
    expect(await runtime.runPromise(Effect.flatMap(Counter, ({ next }) => next))).toBe(1)
    expect(await stub.resultOf(stub.submit({}))).toEqual({ output: 2 })
    expect(await runtime.runPromise(Effect.flatMap(Counter, ({ next }) => next))).toBe(3)
    const after = ["SIGTERM", "SIGINT", "uncaughtException", "unhandledRejection"].map((event) => process.listenerCount(event))
    expect(after).toEqual(before)
  })

  it("finishes and delivers its jobs when the program closes the layer, and takes no more", async () => {
    const { config, stub } = await startStub()
    const gate = Deferred.makeUnsafe<string>()
    const handler = Handler.fromFunction(() => Effect.runPromise(Deferred.await(gate)))
    const runtime = start(EmbeddedWorker.layer(Worker.layer(handler)).pipe(Layer.provide(config)))
    const job = stub.submit({})
    await runtime.runPromise(Effect.void)
    await stub.until(() => stub.of("ping").some(({ text }) => text.includes(job)))
    const disposed = runtime.dispose()
    await stub.until(() => stub.of("ping").some(({ text }) => text.includes("exiting")))
    const late = stub.submit({})
    expect(stub.result(job)).toBeUndefined()
    Deferred.doneUnsafe(gate, Effect.succeed("finished"))
    await disposed
    expect(stub.result(job)).toEqual({ output: "finished" })
    expect(stub.result(late)).toBeUndefined()
  })

  it.each(["PLATFORM_", "RUNPOD_"] as const)(
    "says in the heartbeats of %s how its handler collects jobs, unless they are RunPod's",
    async (prefix) => {
      const { stub } = await startStub()
      const config = settings(stub.environment({ prefix, pingIntervalMs: 50 }))
      const handler = Handler.fromBatchFunction((jobs) => jobs.map(() => 1), { max: 32, wait: 20 })
      await start(EmbeddedWorker.layer(Worker.layer(handler)).pipe(Layer.provide(config))).runPromise(Effect.void)
      await stub.until(() => stub.of("ping").length > 0)
      const [beat] = stub.of("ping")
      if (prefix === "PLATFORM_") expect(JSON.parse(beat?.text ?? "")).toMatchObject({ batch_max: 32, batch_wait: 20 })
      else expect([beat?.method, Object.keys(beat?.query ?? {}).filter((key) => key.startsWith("batch"))]).toEqual(["GET", []])
    }
  )

  it("continues after a result that requests a fresh worker", async () => {
    const { config, stub } = await startStub()
    const handler = Handler.fromFunction(() => ({ refresh_worker: true, value: 1 }))
    const app = EmbeddedWorker.layer(Worker.layer(handler)).pipe(Layer.provide(config))
    await start(app).runPromise(Effect.void)
    for (const id of [stub.submit({}), stub.submit({})]) expect(await stub.resultOf(id)).toMatchObject({ output: { value: 1 } })
  })

  it("fails its layer when a fitness check fails, and reports the worker as unhealthy", async () => {
    const { config, stub } = await startStub()
    const unfit = FitnessChecks.layerOf("gpu", Effect.fail("no GPU"))
    const app = EmbeddedWorker.layer(Worker.layer(Count).pipe(Layer.provide(unfit))).pipe(
      Layer.provide([Counter.layer, config])
    )
    expect(await failureOf(app)).toContain("A fitness check or the setup of the embedded worker failed")
    expect(stub.of("ping").map(({ text }) => text).join()).toContain("unhealthy")
    expect(stub.of("job-take")).toEqual([])
  })

  it("fails its layer without a platform, and says which variables to set", async () => {
    const app = EmbeddedWorker.layer(Worker.layer(Count)).pipe(Layer.provide([Counter.layer, settings({})]))
    expect(await failureOf(app)).toContain("stint worker-env")
  })
})
