/**
 * Effect's logger in the format of docs/spec/logging.md#line-format.
 *
 * Every line that a job logs contains the job's id: the runtime annotates the job's fiber with `requestId`, which also applies to a
 * handler's own `Effect.log`. Other annotations follow the message as `key=value`.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import type { LogLevel } from "effect/LogLevel"
import * as References from "effect/References"
import { CurrentStep } from "../handlers/CurrentStep.ts"
import { messageOf, traceback } from "../handlers/ThrownValue.ts"
import * as LogLine from "./LogLine.ts"
import { logStyle, WorkerConfig } from "./WorkerConfig.ts"

/** The annotation with the job's id. */
export const REQUEST_ID = "requestId"

const LINE_LEVEL: Record<LogLevel, LogLine.LineLevel> = {
  All: "TRACE",
  Trace: "TRACE",
  Debug: "DEBUG",
  Info: "INFO",
  Warn: "WARN",
  Error: "ERROR",
  Fatal: "ERROR",
  None: "ERROR"
}

const MINIMUM: Record<LogLine.Level, LogLevel> = {
  NOTSET: "None",
  TRACE: "Trace",
  DEBUG: "Debug",
  INFO: "Info",
  WARN: "Warn",
  ERROR: "Error"
}

const text = (part: unknown): string => {
  if (typeof part === "string") return part
  return part instanceof Error ? traceback(part) : messageOf(part)
}

/** Writes one line, with the job's id and the path of the pipeline's step, if any. */
type Write = (level: LogLine.LineLevel, message: string, requestId: string | undefined, step: string | undefined) => void

/** A logger that calls `write` for each line. */
export const make = (write: Write) =>
  Logger.make<unknown, void>(({ cause, fiber, logLevel, message }) => {
    let line = Array.isArray(message) ? message.map(text).join(" ") : text(message)
    let requestId: string | undefined
    for (const [key, value] of Object.entries(fiber.getRef(References.CurrentLogAnnotations))) {
      if (key === REQUEST_ID) requestId = String(value)
      else line += ` ${key}=${text(value)}`
    }
    if (cause.reasons.length > 0) line += `\n${Cause.pretty(cause)}`
    write(LINE_LEVEL[logLevel], line, requestId, fiber.getRef(CurrentStep))
  })

const stdoutLogger = (style: LogLine.Style): Layer.Layer<never> =>
  Layer.merge(
    Logger.layer([make((...line) => LogLine.write(style, ...line))]),
    Layer.succeed(References.MinimumLogLevel, MINIMUM[style.level])
  )

/** Replaces the default loggers with one that writes lines (docs/spec/logging.md#line-format) to standard output. */
export const layer: Layer.Layer<never, never, WorkerConfig> = Layer.unwrap(
  Effect.map(WorkerConfig, ({ log }) => stdoutLogger(log))
)

/** Like {@link layer}, but without a `WorkerConfig`, for code outside a worker, such as a script. */
export const layerPlain: Layer.Layer<never> = Layer.suspend(() => stdoutLogger(logStyle(process.env, process.argv.slice(2))))
