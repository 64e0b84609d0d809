/**
 * Workers with progress: over an in-memory transport with delayed responses, and over HTTP.
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

/** The platform's response to one value. */
export interface Answer {
  /** The delay in milliseconds. */
  readonly after: number
  readonly how: number | "unreachable"
}

/** A request to the platform. `answered` is undefined before the response and if the worker aborted the request. */
interface RecordedRequest {
  readonly kind: "progress" | "done"
  readonly job: string
  readonly value: unknown
  readonly at: number
  answered: number | undefined
}

const config = (env: WorkerConfig.Environment) =>
  Layer.effect(WorkerConfig.WorkerConfig, Effect.orDie(WorkerConfig.read({ PLATFORM_SHUTDOWN_GRACE: "0", ...env }, [])))

/** An in-memory worker, and the requests to its platform. The scripted responses come first; after them, 200 without delay. */
export const inMemory = (
  handler: Runnable<Progress.Progress>,
  options: { readonly progress?: Progress.Options; readonly answers?: ReadonlyArray<Answer>; readonly concurrency?: number } = {}
) => {
  const seen: Array<RecordedRequest> = []
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
            const entry: RecordedRequest = {
              kind: "progress",
              job: job.id,
              value,
              at: clock.currentTimeMillisUnsafe(),
              answered: undefined
            }
            seen.push(entry)
            const { after, how } = answers.shift() ?? { after: 0, how: 200 }
            const answer = Effect.suspend(() => {
              entry.answered = clock.currentTimeMillisUnsafe()
              if (how === 200) return Effect.void
              const reason = how === "unreachable"
                ? new Unreachable({ detail: "the platform does not answer (ECONNREFUSED)", timedOut: false })
                : new Refused({ status: how, text: "an error of the test" })
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

/** A worker over HTTP with these variables. It runs until the scope of the test closes. */
export const overHttp = Effect.fnUntraced(function*(
  env: WorkerConfig.Environment,
  handler: Runnable<Progress.Progress>,
  options: { readonly progress?: Progress.Options; readonly concurrency?: number } = {}
) {
  const log = LogMemory.make()
  const source = Layer.unwrap(
    Effect.map(WorkerConfig.WorkerConfig, ({ platform }) => {
      if (platform === undefined) throw new Error("the variables configure no platform")
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
