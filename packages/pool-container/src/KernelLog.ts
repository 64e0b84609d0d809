/**
 * Checks in the kernel's log whether the kernel killed a process of a container because the container's memory ran out.
 *
 * Some engines do not detect it (Podman 4.3 with version 1 of control groups reports `OOMKilled: false`), and the counters of the
 * control group no longer exist when the container has ended. Only root may read the log. It contains the last few thousand lines.
 */
import { closeSync, constants, openSync, readSync } from "node:fs"

/** The maximum length of a line of the log. Bytes. */
const MAX_LINE = 8_192

/** The maximum number of lines to read. The log is a buffer of limited size. */
const MAX_LINES = 100_000

/** Whether a line says that the kernel killed a process of this container: its control group is named after the container's id. */
export const reportsOutOfMemory = (line: string, container: string): boolean =>
  line.includes("oom-kill:constraint=CONSTRAINT_MEMCG") && new RegExp(`oom_memcg=[^,]*${container}`).test(line)

/** Whether the log has such a line. False when it cannot be read. */
export const outOfMemory = (container: string, file = "/dev/kmsg"): boolean => {
  let log: number | undefined
  try {
    log = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
    const line = Buffer.alloc(MAX_LINE)
    // Each read returns one line, and fails with EAGAIN after the last one.
    for (let count = 0; count < MAX_LINES; count++) {
      const length = readSync(log, line)
      if (length === 0) return false
      if (reportsOutOfMemory(line.toString("utf8", 0, length), container)) return true
    }
  } catch {
    // After the last line, or not permitted.
  } finally {
    if (log !== undefined) closeSync(log)
  }
  return false
}
