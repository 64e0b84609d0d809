/**
 * The platform's log on a terminal: one line an event, time, level, message, then what belongs to it. Workers' lines carry their endpoint
 * and worker in front, as they came.
 *
 * ```
 *   04:12:09 INFO   hello w-3f9a | loading the model
 *   04:12:11 WARN   Worker w-3f9a of endpoint hello is unhealthy: ...
 * ```
 */
import type { WorkerLine } from "@stint/pool/WorkerLog"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Inspectable from "effect/Inspectable"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Schema from "effect/Schema"
import process from "node:process"

const time = (date: Date): string => date.toISOString().slice(11, 19)

const line = (date: Date, level: string, text: string) => `${time(date)} ${level.toUpperCase().padEnd(6)} ${text}`

const textOf = (message: unknown): string =>
  (Array.isArray(message) ? message : [message])
    .map((part) => typeof part === "string" ? part : part instanceof Error ? part.message : Inspectable.toStringUnknown(part, 0))
    .join(" ")

const format = Logger.make<unknown, string>(({ cause, date, fiber, logLevel, message }) => {
  const annotations = Object.entries(fiber.getRef(References.CurrentLogAnnotations))
    .map(([key, value]) => ` ${key}=${typeof value === "string" ? value : Inspectable.toStringUnknown(value, 0)}`).join("")
  const failure = Cause.isCause(cause) && cause.reasons.length > 0 ? `\n${Cause.pretty(cause)}` : ""
  return line(date, logLevel, textOf(message)) + annotations + failure
})

const write = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

/** The log goes to standard error: standard output is for what was asked for. */
export const layer = Logger.layer([Logger.map(format, write)])

/** The lines of the worker SDK's own logger (specification 6); a program's other lines stay as they are. */
const decodeSdkLine = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({
  requestId: Schema.NullOr(Schema.String),
  message: Schema.String,
  level: Schema.String
})))

/** A line that a worker printed. */
export const writeWorkerLine = ({ endpoint, text, worker }: WorkerLine): Effect.Effect<void> =>
  Effect.sync(() => {
    const from = `${endpoint} ${worker}`
    write(Option.match(decodeSdkLine(text), {
      onNone: () => line(new Date(), "", `${from} | ${text}`),
      onSome: ({ level, message, requestId }) =>
        line(new Date(), level, `${requestId === null ? from : `${from} ${requestId}`} | ${message}`)
    }))
  })
