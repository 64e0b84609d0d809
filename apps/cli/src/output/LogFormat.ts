/**
 * Formats the platform's log for a terminal. Each event is one line with its date and time in UTC, its level, message and annotations. Lines from workers start
 * with the endpoint and the worker.
 *
 * ```
 *   2026-11-22T04:12:09Z INFO   hello w-3f9a | loading the model
 *   2026-11-22T04:12:11Z WARN   Worker w-3f9a of endpoint hello is unhealthy: ...
 * ```
 *
 * Messages contain text from callers and workers. Colours are removed, other control characters are escaped, and the further lines of a
 * message are indented, so that no message can act on the terminal or forge a log line.
 */
import type { JobLogLine } from "@stint/contract/JobLogLine"
import { escapeUnprintable } from "@stint/contract/PrintableText"
import type { ParsedLogLine } from "@stint/pool/ParsedLogLine"
import type { WorkerLine } from "@stint/pool/WorkerLog"
import * as Cause from "effect/Cause"
import * as Inspectable from "effect/Inspectable"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import process from "node:process"

/** With the date, because logs are often read days later. */
const time = (date: Date): string => `${date.toISOString().slice(0, 19)}Z`

/** The sequences that set colours and styles. Workers often print them, and escaping them would make their lines hard to read. */
const STYLES = new RegExp(String.raw`\u001b\[[\d;]*m`, "gu")

const INDENT = " ".repeat(28)

const line = (date: Date, level: string, text: string) =>
  `${time(date)} ${level.toUpperCase().padEnd(6)} ${
    escapeUnprintable(text.replaceAll(STYLES, "")).replaceAll("\n", `\n${INDENT}`)
  }`

const textOf = (message: unknown): string =>
  (Array.isArray(message) ? message : [message])
    .map((part) => typeof part === "string" ? part : part instanceof Error ? part.message : Inspectable.toStringUnknown(part, 0))
    .join(" ")

const format = Logger.make<unknown, string>(({ cause, date, fiber, logLevel, message }) => {
  const annotations = Object.entries(fiber.getRef(References.CurrentLogAnnotations))
    .map(([key, value]) => ` ${key}=${typeof value === "string" ? value : Inspectable.toStringUnknown(value, 0)}`).join("")
  const failure = Cause.isCause(cause) && cause.reasons.length > 0 ? `\n${Cause.pretty(cause)}` : ""
  return line(date, logLevel, textOf(message) + annotations + failure)
})

const write = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

/** The log goes to standard error, because standard output is for results. */
export const layer = Logger.layer([Logger.map(format, write)])

/** Writes a line from a worker. A line from the SDK's logger is prefixed with its level and job. */
export const writeWorkerLine = (
  { endpoint, text, worker }: Pick<WorkerLine, "endpoint" | "text" | "worker">,
  { isLogged, job, level, message }: ParsedLogLine
): void => {
  const from = `${endpoint} ${worker}`
  write(
    isLogged
      ? line(new Date(), level, `${job === undefined ? from : `${from} ${job}`} | ${message}`)
      : line(new Date(), "", `${from} | ${text}`)
  )
}

/** Formats one line of a job's log for `stint logs`. */
export const jobLine = ({ level, message, release, step, time, workerId }: JobLogLine): string =>
  line(
    new Date(time),
    level,
    `${workerId ?? "platform"}${release === undefined ? "" : ` r${release}`}${step === undefined ? "" : ` ${step}`} | ${message}`
  )
