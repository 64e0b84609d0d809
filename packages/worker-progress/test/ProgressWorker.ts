/**
 * Workers with progress: over a transport in memory whose answers take time, and over HTTP.
 */
import { JobSource, JobSourceError, Refused, Unreachable } from "@stint/worker/JobSource"
import * as JobSourceHttp from "@stint/worker/JobSourceHttp"
import type { Runnable } from "@stint/worker/Runnable"
import { JobSourceMemory, LogMemory } from "@stint/worker/testing"
import * as Worker from "@stint/worker/Worker"
import * as WorkerConfig from "@stint/worker/WorkerConfig"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Progress } from "../src/index.ts"

/** How the platform answers one value. */
export interface Answer {
  /** Milliseconds until it comes. */
  readonly after: number
  readonly how: number | "unreachable"
}

/** What came to the platform, in order. `answered` is undefined while it waits, or where the worker hung up. */
interface Seen {
  readonly kind: "progress" | "done"
  readonly job: string
  readonly value: unknown
  readonly at: number
  answered: number | undefined
}

const config = (env: WorkerConfig.Environment) =>
  Layer.effect(WorkerConfig.WorkerConfig, Effect.orDie(WorkerConfig.read({ PLATFORM_SHUTDOWN_GRACE: "0", ...env }, [])))

/** A worker in memory, and what its platform has seen. Values are answered as scripted, and then with 200 at once. */
export const inMemory = (
  handler: Runnable<Progress.Progress>,
  options: { readonly progress?: Progress.Options; readonly answers?: ReadonlyArray<Answer>; readonly concurrency?: number } = {}
) => {
  const seen: Array<Seen> = []
  const log = LogMemory.make()
  const answers = [...options.answers ?? []]
  const source = Layer.effect(
    JobSource,
    Effect.gen(function*() {
      const inner = yield* JobSource
      const clock = yield* Clock.Clock
      return {
        ...inner,
        progress: (job, value) =>
          Effect.suspend(() => {
            const entry: Seen = { kind: "progress", job: job.id, value, at: clock.currentTimeMillisUnsafe(), answered: undefined }
            seen.push(entry)
            const { after, how } = answers.shift() ?? { after: 0, how: 200 }
            const answer = Effect.suspend(() => {
              entry.answered = clock.currentTimeMillisUnsafe()
              if (how === 200) return Effect.void
              const reason = how === "unreachable"
                ? new Unreachable({ detail: "the platform does not answer (ECONNREFUSED)", timedOut: false })
                : new Refused({ status: how, text: "a fault of the test" })
              return Effect.fail(new JobSourceError({ reason }))
            })
            return after === 0 ? answer : Effect.andThen(Effect.sleep(after), answer)
          }),
        deliverResult: (job, body, stream) =>
          Effect.suspend(() => {
            const at = clock.currentTimeMillisUnsafe()
            seen.push({ kind: "done", job: job.id, value: JSON.parse(body), at, answered: at })
            return inner.deliverResult(job, body, stream)
          })
      }
    })
  ).pipe(Layer.provideMerge(JobSourceMemory.layer))
  const services = Layer.mergeAll(source, Worker.layerPluginServices, config({ PLATFORM_POD_ID: "w1" }), log.layer)
  const { concurrency = 1 } = options
  const layer = Worker.layer(handler, {
    middleware: [Progress.middlewareWith(options.progress ?? {})],
    concurrencyModifier: () => concurrency
  }).pipe(
    Layer.provideMerge(services)
  )
  return { layer, log: log.lines, seen, values: () => seen.filter(({ kind }) => kind === "progress").map(({ value }) => value) }
}

/** A worker over HTTP, with these variables; it runs until the test's scope closes. */
export const overHttp = Effect.fnUntraced(function*(
  env: WorkerConfig.Environment,
  handler: Runnable<Progress.Progress>,
  options: { readonly progress?: Progress.Options; readonly concurrency?: number } = {}
) {
  const log = LogMemory.make()
  const source = Layer.unwrap(
    Effect.map(WorkerConfig.WorkerConfig, ({ platform }) => {
      if (platform === undefined) throw new Error("the variables make no platform")
      return JobSourceHttp.layerOf(platform)
    })
  )
  const { concurrency = 1 } = options
  yield* Layer.build(
    Worker.layer(handler, {
      middleware: [Progress.middlewareWith(options.progress ?? {})],
      concurrencyModifier: () => concurrency
    }).pipe(
      Layer.provide(source.pipe(
        Layer.provideMerge(Layer.merge(Worker.layerPluginServices, log.layer)),
        Layer.provideMerge(config(env))
      ))
    )
  )
  return { log: log.lines }
})
