/**
 * The output of commands: text, or one JSON document with `--json`, and a progress line when the output is a terminal.
 *
 * All output passes through here, because names, errors and outputs come from callers and workers: control characters are escaped, and a
 * value cannot start a line that looks like the next field or row.
 */
import type { Job } from "@stint/contract/Job"
import { escapeLine, escapeUnprintable } from "@stint/contract/PrintableText"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import process from "node:process"

/** Prints text on standard output. */
export const text = (value: string): Effect.Effect<void> => Console.log(escapeUnprintable(value))

/** Prints a message on standard error, because standard output is for results. */
export const message = (value: string): Effect.Effect<void> => Console.error(escapeUnprintable(value))

/** Prints a value as one line of JSON. */
export const jsonLine = (value: unknown): Effect.Effect<void> => text(JSON.stringify(value))

/** Prints a value as JSON, or as text formatted by `human`. */
export const print = <A>(json: boolean, value: A, human: (value: A) => string): Effect.Effect<void> =>
  text(json ? JSON.stringify(value, null, 2) : human(value))

/** Draws the progress line, which the next progress line overwrites. Does nothing unless standard error is a terminal. */
export const progress = (line: string): Effect.Effect<void> =>
  Effect.sync(() => {
    if (process.stderr.isTTY) process.stderr.write(`\r\u001b[2K${escapeLine(line)}`)
  })

/** Removes the progress line. */
export const clearProgress: Effect.Effect<void> = progress("")

const seconds = (millis: number | undefined): string => millis === undefined ? "-" : `${(millis / 1000).toFixed(2)} s`

/** One line `name     value`. Further lines of the value are indented. */
export const field = (name: string, value: string): string =>
  `${name.padEnd(FIELD_WIDTH)}${value.replaceAll("\n", `\n${" ".repeat(FIELD_WIDTH)}`)}`

const FIELD_WIDTH = 9

/** Formats a job as text. */
export const job = (value: Job): string => {
  const lines = [field("job", value.id), field("status", value.status)]
  if (value.delayTime !== undefined) lines.push(field("waited", seconds(value.delayTime)))
  if (value.executionTime !== undefined) lines.push(field("ran", seconds(value.executionTime)))
  if (value.retries !== undefined) lines.push(field("retries", String(value.retries)))
  if (value.workerId !== undefined) lines.push(field("worker", value.workerId))
  if (value.error !== undefined) lines.push(field("error", value.error))
  if (value.output !== undefined) lines.push(field("output", JSON.stringify(value.output, null, 2)))
  return lines.join("\n")
}

/** Aligns rows in columns; the first row is the heading. */
export const table = (values: ReadonlyArray<ReadonlyArray<string>>): string => {
  const rows = values.map((row) => row.map(escapeLine))
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)))
  return rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ").trimEnd()).join("\n")
}
