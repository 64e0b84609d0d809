/**
 * On a platform, tags the output of `console` with the current job: each call becomes one JSON line with the job's id.
 *
 * ```
 *   console.log("step", { n: 1 })   -->  {"requestId":"6090...","message":"step { n: 1 }","level":"INFO","source":"stdout"}
 * ```
 *
 * In a step of a pipeline, the line also has the step's path.
 *
 * Concurrent jobs share one standard output, so without the id the platform could not attribute a line to its job. In a handler function, a call
 * belongs to the function's job, also after an `await`; in an Effect, to the job of the fiber that runs, so not after an `await` within
 * `Effect.promise`. Outside a job, and when the worker is not on a platform, `console` is unchanged. Output that bypasses `console`
 * (`process.stdout.write`, other loggers, child processes)
 * stays plain text.
 */
import { truncateMessage } from "@stint/contract/LogMessage"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { CurrentJob } from "../handlers/CurrentJob.ts"
import { CurrentStep } from "../handlers/CurrentStep.ts"
import * as RunningJob from "../handlers/RunningJob.ts"
import type { LineLevel } from "./LogLine.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** The tagged methods, with their level and stream. */
const METHODS = {
  debug: { level: "DEBUG", source: "stdout" },
  log: { level: "INFO", source: "stdout" },
  info: { level: "INFO", source: "stdout" },
  warn: { level: "WARN", source: "stderr" },
  error: { level: "ERROR", source: "stderr" }
} as const satisfies Record<string, { readonly level: LineLevel; readonly source: "stdout" | "stderr" }>

type Method = keyof typeof METHODS

/** Loaded on first use: an import of `node:util` reads all its exports, which adds 3 ms to a cold start. */
const format = (parts: ReadonlyArray<unknown>): string => process.getBuiltinModule("node:util").format(...parts)

type Print = (...parts: ReadonlyArray<unknown>) => void

/** A service of the Effect that calls this. */
const ofFiber = <Id, Service>(tag: Context.Key<Id, Service>): Service | undefined => {
  const fiber = Fiber.getCurrent()
  return fiber === undefined ? undefined : Context.getOrUndefined(fiber.context, tag)
}

/** The JSON line of one call. */
const lineOf = (method: Method, job: string, parts: ReadonlyArray<unknown>): string => {
  const { level, source } = METHODS[method]
  const step = RunningJob.service(CurrentStep) ?? ofFiber(CurrentStep)
  return JSON.stringify({
    requestId: job,
    message: truncateMessage(format(parts)),
    level,
    source,
    ...(step === undefined ? {} : { step })
  })
}

/** Prints a tagged line in a job, and calls the original method outside jobs. */
const tagged = (method: Method, print: Print): Print => (...parts) => {
  const job = RunningJob.service(CurrentJob) ?? ofFiber(CurrentJob)
  if (job === undefined) return print(...parts)
  process[METHODS[method].source].write(`${lineOf(method, job.id, parts)}\n`)
}

const names: ReadonlyArray<Method> = ["debug", "log", "info", "warn", "error"]

/** Replaces the methods of a console. Returns a function that restores them. */
export const install = (console: Record<Method, Print>): () => void => {
  const before = names.map((name) => [name, console[name]] as const)
  for (const [name, print] of before) console[name] = tagged(name, print.bind(console))
  return () => {
    for (const [name, print] of before) console[name] = print
  }
}

/** Tags `console` while the layer's scope is open, when the log format is JSON. */
export const layer: Layer.Layer<never, never, WorkerConfig> = Layer.effectDiscard(
  Effect.flatMap(WorkerConfig, ({ log }) =>
    log.json
      ? Effect.acquireRelease(Effect.sync(() => install(console)), (restore) => Effect.sync(restore))
      : Effect.void)
)
