/**
 * A log in memory, for tests.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as References from "effect/References"
import { make as makeLogger } from "../runtime/Logger.ts"
import type { LineLevel } from "../runtime/LogLine.ts"

/** One line, as `LogLine.format` receives it. */
export interface Line {
  readonly level: LineLevel
  readonly message: string
  readonly requestId: string | undefined
  readonly step?: string
}

export interface LogMemory {
  /** All lines so far. */
  readonly lines: ReadonlyArray<Line>
  /** Waits for a matching line; returns at once if there is one already. */
  readonly until: (message: RegExp) => Effect.Effect<Line>
  /** A layer that replaces all other loggers and adds each line to the list. */
  readonly layer: Layer.Layer<never>
}

/** An empty log. */
export const make = (): LogMemory => {
  const lines: Array<Line> = []
  const watchers = new Set<() => void>()
  return {
    lines,
    until: (message) =>
      Effect.callback((resume) => {
        const watcher = () => {
          const line = lines.find((one) => message.test(one.message))
          if (line === undefined) return
          watchers.delete(watcher)
          resume(Effect.succeed(line))
        }
        watchers.add(watcher)
        watcher()
        return Effect.sync(() => void watchers.delete(watcher))
      }),
    layer: Layer.merge(
      Logger.layer([makeLogger((level, message, requestId, step) => {
        lines.push({ level, message, requestId, ...(step === undefined ? {} : { step }) })
        for (const watcher of [...watchers]) watcher()
      })]),
      Layer.succeed(References.MinimumLogLevel, "All")
    )
  }
}
