/**
 * The small files in which the system says how it is: `/proc/meminfo`, and those of control groups.
 */
import * as Context from "effect/Context"
import { readFileSync } from "node:fs"

/** The text of a file by its absolute path; undefined where it cannot be read. */
export type SystemFiles = (path: string) => string | undefined

/**
 * How they are read. Default: from this machine, without a turn of the event loop, because they are answered by the kernel out of its
 * memory. A test provides the files of another machine.
 */
export const SystemFiles: Context.Reference<SystemFiles> = Context.Reference("@stint/worker-fitness/SystemFiles", {
  defaultValue: () => (path: string) => {
    try {
      return readFileSync(path, "utf8")
    } catch {
      return undefined
    }
  }
})
