/**
 * Parses a line of a worker's output. Lines from SDK loggers contain a job id and a level
 * (docs/spec/logging.md#line-format, docs/spec/logging.md#lines-of-other-programs); other lines are plain text.
 *
 * ```
 *   {"requestId":"6090...","message":"loading","level":"INFO"}     belongs to the job; written by its logger
 *   Traceback (most recent call last):                             text, on stderr
 * ```
 *
 * Text on standard output has the level INFO. Text on standard error has the level WARN, so that tracebacks appear in a search for
 * problems.
 */
import { type LogLevel, type LogSource, parseLogLevel } from "@stint/contract/JobLogLine"
import { RunPath } from "@stint/contract/RunJournal"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { WorkerLine } from "./WorkerLog.ts"

/** A parsed line. */
export interface ParsedLogLine {
  /** The job id in the line, if any. */
  readonly job: string | undefined
  readonly level: LogLevel
  readonly source: LogSource
  readonly message: string
  /** The path of the pipeline's step that wrote the line, if any. */
  readonly step?: string
  /** Whether an SDK's logger wrote the line. False for plain text. */
  readonly isLogged: boolean
}

const decodeLogged = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({
  requestId: Schema.NullOr(Schema.String),
  message: Schema.String,
  level: Schema.String,
  /** Set by our SDK on lines that the handler printed. */
  source: Schema.optionalKey(Schema.Literals(["stdout", "stderr"])),
  /** Set by our SDK on lines that a step of a pipeline wrote. Other programs may use the name for something else. */
  step: Schema.optionalKey(Schema.Unknown)
})))

const isPath = Schema.is(RunPath)

/** Parses a line. */
export const parse = ({ stream, text }: Pick<WorkerLine, "stream" | "text">): ParsedLogLine => {
  const logged = text.startsWith("{") ? decodeLogged(text) : Option.none()
  return Option.match(logged, {
    onNone: () => ({
      job: undefined,
      level: stream === "stdout" ? "INFO" : "WARN",
      source: stream,
      message: text,
      isLogged: false
    }),
    onSome: ({ level, message, requestId, source, step }) => ({
      job: requestId ?? undefined,
      level: parseLogLevel(level),
      source: source ?? "log",
      message,
      ...(isPath(step) ? { step } : {}),
      isLogged: true
    })
  })
}
