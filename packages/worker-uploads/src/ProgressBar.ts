/**
 * The progress of uploads, as one line on a terminal:
 *
 * ```
 *   photo.png  ████████░░░░░░░░░░░░  41 %  12.3 of 29.8 MB  8.1 MB/s
 * ```
 *
 * Concurrent uploads share the line. It is written to standard error, only if that is a terminal and the log is not JSON: in a platform's worker
 * it would be noise. It disappears when the last upload ends.
 *
 * This does not use a library, because the code is short, and the usual libraries are made for many bars and run their own timers.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** Where the line is written. */
export interface Sink {
  readonly write: (text: string) => void
  /** The width of the terminal. Characters. */
  readonly columns: () => number
}

/** Reports uploaded bytes of one upload. */
export type Advance = (bytes: number) => Effect.Effect<void>

/** A line that shows uploads. */
export interface ProgressBar {
  /** Shows an upload while the scope is open. `size` undefined: unknown. The name must be safe to print. */
  readonly show: (name: string, size: number | undefined) => Effect.Effect<Advance, never, Scope.Scope>
}

/** Shows nothing. */
export const none: ProgressBar = { show: () => Effect.succeed(() => Effect.void) }

/** The minimum time between two updates. Milliseconds. */
const REDRAW = 100

const CELLS = 20

const CLEAR = "\r\u001b[K"

const UNITS = ["B", "kB", "MB", "GB", "TB"] as const

/** The unit in which this number of bytes is shown. */
const unitOf = (bytes: number): number =>
  Math.min(UNITS.length - 1, bytes < 1 ? 0 : Math.floor(Math.log10(Math.max(1, bytes)) / 3))

const inUnit = (bytes: number, unit: number): string => unit === 0 ? String(Math.round(bytes)) : (bytes / 1000 ** unit).toFixed(1)

const amount = (bytes: number): string => `${inUnit(bytes, unitOf(bytes))} ${UNITS[unitOf(bytes)]}`

interface Shown {
  readonly name: string
  readonly size: number | undefined
  done: number
}

/** The line for these uploads, truncated to the width. */
const line = (uploads: ReadonlyArray<Readonly<Shown>>, milliseconds: number, columns: number): string => {
  const [first] = uploads
  if (first === undefined) return ""
  const done = uploads.reduce((sum, one) => sum + one.done, 0)
  const size = uploads.some((one) => one.size === undefined)
    ? undefined
    : uploads.reduce((sum, one) => sum + (one.size ?? 0), 0)
  const speed = milliseconds < 1 ? "" : `  ${amount(done / milliseconds * 1000)}/s`
  const title = uploads.length === 1 ? first.name : `${uploads.length} uploads`
  if (size === undefined) return `${title}  ${amount(done)}${speed}`.slice(0, columns)
  const share = size === 0 ? 1 : Math.min(1, done / size)
  const filled = Math.floor(share * CELLS)
  const bar = "█".repeat(filled) + "░".repeat(CELLS - filled)
  const unit = unitOf(size)
  const rest = `  ${bar}  ${Math.floor(share * 100)} %  ${inUnit(done, unit)} of ${inUnit(size, unit)} ${UNITS[unit]}${speed}`
  return (title.slice(0, Math.max(8, columns - rest.length)) + rest).slice(0, columns)
}

/** A line on this sink. */
export const make = (sink: Sink): ProgressBar => {
  const shown = new Set<Shown>()
  let started = 0
  let drawn = 0
  const draw = (now: number) => {
    drawn = now
    // The last column stays empty: some terminals wrap there.
    sink.write(CLEAR + line([...shown], now - started, Math.max(1, sink.columns() - 1)))
  }
  return {
    show: Effect.fnUntraced(function*(name, size) {
      const upload: Shown = { name, size, done: 0 }
      yield* Effect.acquireRelease(
        Effect.map(Clock.currentTimeMillis, (now) => {
          if (shown.size === 0) started = now
          shown.add(upload)
          draw(now)
        }),
        () =>
          Effect.map(Clock.currentTimeMillis, (now) => {
            shown.delete(upload)
            if (shown.size === 0) sink.write(CLEAR)
            else draw(now)
          })
      )
      return (bytes) =>
        Effect.map(Clock.currentTimeMillis, (now) => {
          upload.done += bytes
          if (now - drawn >= REDRAW || upload.done === upload.size) draw(now)
        })
    })
  }
}

/** The line on standard error, if that is a terminal. `json`: the log is JSON. */
export const terminal = (json: boolean): ProgressBar =>
  !json && process.stderr.isTTY
    ? make({ write: (text) => void process.stderr.write(text), columns: () => process.stderr.columns })
    : none
