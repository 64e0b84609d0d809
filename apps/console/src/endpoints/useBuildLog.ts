/**
 * Follows the log of a build over Server-Sent Events, also after its end.
 *
 * ```
 *   connect --line, line, ...--> end: the platform closes, and so does the page
 *      ^            |
 *      +--lost------+  the browser reconnects by itself and names its last line
 * ```
 */
import type { BuildLogLine } from "@stint/contract/Build"
import { useEffect, useState } from "react"
import * as Api from "../api/Api.ts"

/** Lines that arrive within this time are drawn together. Milliseconds. */
const DRAW_MILLIS = 100

/** The maximum number of lines that the page keeps. */
export const MAX_LINES = 5_000

/** The lines so far. */
export interface BuildLog {
  readonly lines: ReadonlyArray<BuildLogLine>
  /** The number of older lines that were dropped. */
  readonly dropped: number
  readonly hasEnded: boolean
  /** Whether the platform refuses the log. The browser does not reconnect. */
  readonly isRefused: boolean
}

/** The log before its first line. */
export const emptyBuildLog: BuildLog = { lines: [], dropped: 0, hasEnded: false, isRefused: false }

/** Adds lines in their order. A line that arrives again, after a lost connection, is ignored. */
export const addLines = (log: BuildLog, added: ReadonlyArray<BuildLogLine>): BuildLog => {
  let last = log.lines.at(-1)?.number ?? 0
  const lines = [...log.lines]
  for (const line of added) {
    if (line.number <= last) continue
    last = line.number
    lines.push(line)
  }
  const tooMany = Math.max(0, lines.length - MAX_LINES)
  return { ...log, lines: lines.slice(tooMany), dropped: log.dropped + tooMany }
}

/** The log of a build. `onEnd` is called once, after the last line. */
export const useBuildLog = (endpoint: string, number: number, onEnd: () => void): BuildLog => {
  const [log, setLog] = useState(emptyBuildLog)
  useEffect(() => {
    setLog(emptyBuildLog)
    const source = new EventSource(Api.buildLogPath(endpoint, number))
    let pending: Array<BuildLogLine> = []
    let timer: number | undefined
    const draw = () => {
      window.clearTimeout(timer)
      timer = undefined
      const lines = pending
      pending = []
      setLog((before) => addLines(before, lines))
    }
    source.addEventListener("line", ({ data }: MessageEvent<string>) => {
      const line: BuildLogLine = JSON.parse(data)
      pending.push(line)
      timer ??= window.setTimeout(draw, DRAW_MILLIS)
    })
    source.addEventListener("end", () => {
      source.close()
      draw()
      setLog((before) => ({ ...before, hasEnded: true }))
      onEnd()
    })
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) setLog((before) => ({ ...before, isRefused: true }))
    })
    return () => {
      source.close()
      window.clearTimeout(timer)
    }
  }, [endpoint, number, onEnd])
  return log
}
