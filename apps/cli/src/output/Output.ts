/**
 * The output of commands: text, or one JSON document with `--json`, and progress on standard error.
 *
 * All output passes through here, because names, errors and outputs come from callers and workers: control characters are escaped, and a
 * value cannot start a line that looks like the next field or row.
 */
import type { Job } from "@stint/contract/Job"
import { escapeLine, escapeUnprintable } from "@stint/contract/PrintableText"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import process from "node:process"

/** Untrusted text within a line, such as an id or a cursor. It cannot start a line. */
export const inline = escapeLine

/** Prints text on standard output. */
export const text = (value: string): Effect.Effect<void> => Console.log(escapeUnprintable(value))

/** Prints a message on standard error, because standard output is for results. */
export const message = (value: string): Effect.Effect<void> => Console.error(escapeUnprintable(value))

/** Prints a value as one line of JSON. */
export const jsonLine = (value: unknown): Effect.Effect<void> => text(JSON.stringify(value))

/** Prints a value as JSON, or as text formatted by `human`. */
export const print = <A>(json: boolean, value: A, human: (value: A) => string): Effect.Effect<void> =>
  text(json ? JSON.stringify(value, null, 2) : human(value))

/** Shows the progress of a wait on standard error. */
export interface Progress {
  /** Shows the state, and how long the wait has taken. */
  readonly show: (state: string, elapsedMillis: number) => Effect.Effect<void>
  /** Removes the line from the terminal. */
  readonly clear: Effect.Effect<void>
}

/**
 * In a terminal, one line that each call overwrites. Elsewhere, for example in the log of a CI job, one line for each state change.
 */
export const makeProgress = (): Progress => {
  let last: string | undefined
  const draw = (line: string) => process.stderr.write(`\r\u001b[2K${escapeLine(line)}`)
  return {
    show: (state, elapsedMillis) =>
      Effect.suspend(() => {
        const line = `${state} (${Math.round(elapsedMillis / 1000)} s)`
        const isChanged = state !== last
        last = state
        if (process.stderr.isTTY) return Effect.sync(() => draw(line.slice(0, (process.stderr.columns || 80) - 1)))
        return isChanged ? message(line.replaceAll("\n", " ")) : Effect.void
      }),
    clear: Effect.sync(() => {
      if (process.stderr.isTTY) draw("")
    })
  }
}

const seconds = (millis: number | undefined): string => millis === undefined ? "-" : `${(millis / 1000).toFixed(2)} s`

/** One line `name     value`. Further lines of the value are indented. */
export const field = (name: string, value: string): string =>
  `${name.padEnd(FIELD_WIDTH)}${value.replaceAll("\n", `\n${" ".repeat(FIELD_WIDTH)}`)}`

const FIELD_WIDTH = 9

/** Formats a job as text. `waitDetail`: the parts of its wait. */
export const job = (value: Job, waitDetail?: string): string => {
  const lines = [field("job", value.id), field("status", value.status)]
  if (value.delayTime !== undefined) {
    lines.push(field("waited", waitDetail === undefined ? seconds(value.delayTime) : `${value.delayTime} ms: ${waitDetail}`))
  }
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
