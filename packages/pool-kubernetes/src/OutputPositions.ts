/**
 * How much of each pod's output was forwarded. Stored on disk, so that a restarted platform forwards no line twice.
 *
 * ```
 *   dataDir/pods/stint-w-1.position      2026-11-23T10:00:01.500000000 1
 * ```
 *
 * Without the file, for example in a pod without a volume, the platform reads the output of an adopted worker from its beginning.
 */
import { closeSync, constants, mkdirSync, openSync, readFileSync, rmSync, writeSync } from "node:fs"
import { join } from "node:path"
import type { OutputPosition } from "./PodOutput.ts"

/** An open file with a position. */
export interface PositionFile {
  readonly position: OutputPosition | undefined
  /** Throws when the file cannot be written. */
  readonly write: (position: OutputPosition) => void
  readonly remove: () => void
}

/** The fixed width of a position in the file, in characters, so that each write replaces the previous one completely. */
const WIDTH = 48

/** Opens the file of a pod. Throws when it cannot be opened. */
export const open = (dataDir: string, pod: string): PositionFile => {
  const folder = join(dataDir, "pods")
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const file = join(folder, `${pod}.position`)
  const opened = openSync(file, constants.O_RDWR | constants.O_CREAT, 0o600)
  const [, time = "", lines = ""] = /^(\d{4}-\d\d-\d\dT[\d:]{8}\.\d{9}) (\d+) *$/.exec(readFileSync(file, "utf8")) ?? []
  return {
    position: time === "" ? undefined : { time, lines: Number(lines) },
    write: (position) => {
      writeSync(opened, `${position.time} ${position.lines}`.padEnd(WIDTH), 0)
    },
    remove: () => {
      closeSync(opened)
      rmSync(file, { force: true })
    }
  }
}
