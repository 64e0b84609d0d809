/**
 * Keeps one endpoint of `stint dev` on the newest version of its handler.
 *
 * ```
 *   build --mistake--> shown once; the workers of the last good version continue. Without one, jobs wait
 *     |  ok
 *     v
 *   endpoint with a new revision: the autoscaler replaces its workers --ready--> shown
 *     |  the first worker exits before it is ready
 *     v
 *   shown once; paused (no further starts) until the next save
 * ```
 */
import type { EndpointSpec } from "@stint/contract/Endpoint"
import { WorkerRegistry, type WorkerStatus } from "@stint/queue/WorkerRegistry"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { relative } from "node:path"
import process from "node:process"
import * as DevOutput from "./DevOutput.ts"
import * as HandlerReload from "./HandlerReload.ts"

/** How often the workers are checked. Reads a list in memory. */
const CHECK = "50 millis"

/** A handler endpoint, and where its bundles are. */
export interface Options {
  readonly spec: EndpointSpec & { readonly source: { readonly type: "handler" } }
  readonly directory: string
  readonly importers: ReadonlyArray<string>
}

/** Relative to the current folder, unless the file is outside it. */
const shortPath = (file: string): string => {
  const path = relative(process.cwd(), file)
  return path.startsWith("..") ? file : path
}

/** Keeps the endpoint up to date in the background. Returns when its first version has been built and stored, or its mistakes have been shown. */
export const start = Effect.fnUntraced(function*({ directory, importers, spec }: Options) {
  const { id } = spec
  const store = yield* EndpointStore
  const registry = yield* WorkerRegistry
  const first = yield* Deferred.make<void>()
  let revision = 0
  /** The version whose first ready worker is awaited; undefined once a worker has become ready or has failed. */
  let awaited: { readonly since: number; readonly earlier: ReadonlySet<string> } | undefined

  const put = Effect.fnUntraced(function*(workers: EndpointSpec["workers"]) {
    const known = yield* store.get(id)
    const createdAt = known?.createdAt ?? (yield* Clock.currentTimeMillis)
    yield* store.put({ ...spec, workers, env: { ...spec.env, STINT_DEV_REVISION: String(revision) }, createdAt })
  })
  /** Jobs wait until the next version. */
  const pause = put({ ...spec.workers, min: 0, max: 0 })

  const release = Effect.gen(function*() {
    const earlier = new Set((yield* registry.list(id)).map((worker) => worker.id))
    revision++
    awaited = { since: yield* Clock.currentTimeMillis, earlier }
    // One worker always runs, so that a mistake is reported on save and not at the next job.
    yield* put({ ...spec.workers, min: Math.max(1, spec.workers.min), max: Math.max(1, spec.workers.max) })
  })

  const onReload = (reload: HandlerReload.Reload) =>
    Effect.gen(function*() {
      const changed = reload.changed.map(shortPath).join(", ")
      if (reload._tag === "Broken") {
        const state = revision === 0 ? "Jobs wait." : "The previous version keeps running."
        yield* DevOutput.print(`${id}  ${reload.mistakes.join("\n\n")}\n\n${state} Save a correction to continue.`)
        if (revision === 0) yield* pause
      } else {
        if (changed !== "") yield* DevOutput.print(`${id}  ${changed} changed`)
        if (reload.problem !== undefined) yield* DevOutput.print(`${id}  ${reload.problem}\nIt runs from its sources.`)
        yield* release
      }
    }).pipe(
      Effect.catch((error) => DevOutput.print(`${id}  The new version cannot be used: ${error.message}`)),
      Effect.andThen(Deferred.succeed(first, undefined)),
      Effect.asVoid
    )

  const isReady = ({ state }: WorkerStatus) => state === "idle" || state === "running"
  const isFailing = ({ state }: WorkerStatus) => state === "unhealthy" || state === "throttled"

  const check = Effect.gen(function*() {
    if (awaited === undefined) return
    const { earlier, since } = awaited
    const workers = (yield* registry.list(id)).filter((worker) => !earlier.has(worker.id))
    const failed = workers.find(isFailing)
    if (failed !== undefined) {
      awaited = undefined
      yield* pause
      const [reason] = (failed.reason ?? "It gave no reason.").split("\n")
      yield* DevOutput.print(`${id}  The handler did not start. ${reason}\nJobs wait. Save a correction to continue.`)
    } else if (workers.some(isReady)) {
      awaited = undefined
      yield* DevOutput.print(`${id}  ready in ${(yield* Clock.currentTimeMillis) - since} ms`)
    }
  }).pipe(Effect.catch((error) => Effect.logDebug(error.message)))

  yield* Effect.forkScoped(Effect.repeat(check, Schedule.spaced(CHECK)))
  yield* Effect.forkScoped(HandlerReload.run({ file: spec.source.file, directory, importers, onReload }))
  yield* Deferred.await(first)
})
