/**
 * `console` in a handler function, on a platform: each call is one line of the job that it was called for.
 *
 * ```
 *   console.log("step", { n: 1 })   -->  {"requestId":"6090...","message":"step { n: 1 }","level":"INFO","source":"stdout"}
 * ```
 *
 * Without it a platform could only guess whose line a line is: several jobs may run at once, and all share one standard output. Outside of
 * a job, and elsewhere than on a platform, `console` stays as it is. What is written past it (`process.stdout.write`, other loggers, child
 * processes) is text as before.
 */
import { truncateMessage } from "@stint/contract/LogMessage"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { CurrentJob } from "../handlers/CurrentJob.ts"
import * as RunningJob from "../handlers/RunningJob.ts"
import type { LineLevel } from "./LogLine.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** The methods that print what they are given, with the level and the stream of each. */
const METHODS = {
  debug: { level: "DEBUG", source: "stdout" },
  log: { level: "INFO", source: "stdout" },
  info: { level: "INFO", source: "stdout" },
  warn: { level: "WARN", source: "stderr" },
  error: { level: "ERROR", source: "stderr" }
} as const satisfies Record<string, { readonly level: LineLevel; readonly source: "stdout" | "stderr" }>

type Method = keyof typeof METHODS

/** Fetched when it is needed: an import of `node:util` reads every export of it, which costs a cold start 3 ms. */
const format = (parts: ReadonlyArray<unknown>): string => process.getBuiltinModule("node:util").format(...parts)

type Print = (...parts: ReadonlyArray<unknown>) => void

/** One call as a line. */
const lineOf = (method: Method, job: string, parts: ReadonlyArray<unknown>): string => {
  const { level, source } = METHODS[method]
  return JSON.stringify({ requestId: job, message: truncateMessage(format(parts)), level, source })
}

/** Prints as the job's where there is one, and as before where there is none. */
const tagged = (method: Method, print: Print): Print => (...parts) => {
  const job = RunningJob.service(CurrentJob)
  if (job === undefined) return print(...parts)
  process[METHODS[method].source].write(`${lineOf(method, job.id, parts)}\n`)
}

const names: ReadonlyArray<Method> = ["debug", "log", "info", "warn", "error"]

/** Replaces the methods of a console; what comes back puts them back. */
export const install = (console: Record<Method, Print>): () => void => {
  const before = names.map((name) => [name, console[name]] as const)
  for (const [name, print] of before) console[name] = tagged(name, print.bind(console))
  return () => {
    for (const [name, print] of before) console[name] = print
  }
}

/** For as long as the layer's scope is open, where lines are JSON. */
export const layer: Layer.Layer<never, never, WorkerConfig> = Layer.effectDiscard(
  Effect.flatMap(WorkerConfig, ({ log }) =>
    log.json
      ? Effect.acquireRelease(Effect.sync(() => install(console)), (restore) => Effect.sync(restore))
      : Effect.void)
)
