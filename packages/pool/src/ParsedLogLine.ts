/**
 * What a worker's line says: the lines of SDK loggers name their job and their level
 * (docs/spec/logging.md#line-format, docs/spec/logging.md#lines-of-other-programs), others are text.
 *
 * ```
 *   {"requestId":"6090...","message":"loading","level":"INFO"}     the job's, from its log
 *   Traceback (most recent call last):                             text, on stderr
 * ```
 *
 * Text on standard output is taken for INFO. Text on standard error says nothing of its level; it is taken for WARN, so that who looks for
 * what went wrong finds a traceback.
 */
import { type LogLevel, type LogSource, parseLogLevel } from "@stint/contract/JobLogLine"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { WorkerLine } from "./WorkerLog.ts"

/** A line, understood. */
export interface ParsedLogLine {
  /** The job that it names, if any. */
  readonly job: string | undefined
  readonly level: LogLevel
  readonly source: LogSource
  readonly message: string
  /** It came from an SDK's logger, and is no text as somebody printed it. */
  readonly isLogged: boolean
}

const decodeLogged = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({
  requestId: Schema.NullOr(Schema.String),
  message: Schema.String,
  level: Schema.String,
  /** Our SDK says so where the handler printed it. */
  source: Schema.optionalKey(Schema.Literals(["stdout", "stderr"]))
})))

/** Understands a line. */
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
    onSome: ({ level, message, requestId, source }) => ({
      job: requestId ?? undefined,
      level: parseLogLevel(level),
      source: source ?? "log",
      message,
      isLogged: true
    })
  })
}
