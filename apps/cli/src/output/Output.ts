/**
 * The output of commands: text, or one JSON document with `--json`, and a progress line when the output is a terminal.
 */
import type { Job } from "@stint/contract/Job"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import process from "node:process"

/** Prints a value as JSON, or as text formatted by `human`. */
export const print = <A>(json: boolean, value: A, human: (value: A) => string): Effect.Effect<void> =>
  Console.log(json ? JSON.stringify(value, null, 2) : human(value))

/** Draws the progress line, which the next progress line overwrites. Does nothing unless standard error is a terminal. */
export const progress = (line: string): Effect.Effect<void> =>
  Effect.sync(() => {
    if (process.stderr.isTTY) process.stderr.write(`\r\u001b[2K${line}`)
  })

/** Removes the progress line. */
export const clearProgress: Effect.Effect<void> = progress("")

const seconds = (millis: number | undefined): string => millis === undefined ? "-" : `${(millis / 1000).toFixed(2)} s`

/** Formats a job as text. */
export const job = (value: Job): string => {
  const lines = [`job      ${value.id}`, `status   ${value.status}`]
  if (value.delayTime !== undefined) lines.push(`waited   ${seconds(value.delayTime)}`)
  if (value.executionTime !== undefined) lines.push(`ran      ${seconds(value.executionTime)}`)
  if (value.retries !== undefined) lines.push(`retries  ${value.retries}`)
  if (value.workerId !== undefined) lines.push(`worker   ${value.workerId}`)
  if (value.error !== undefined) lines.push(`error    ${value.error}`)
  if (value.output !== undefined) lines.push(`output   ${JSON.stringify(value.output, null, 2)}`)
  return lines.join("\n")
}

/** Aligns rows in columns; the first row is the heading. */
export const table = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)))
  return rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("  ").trimEnd()).join("\n")
}
