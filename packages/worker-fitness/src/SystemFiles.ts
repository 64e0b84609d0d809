/**
 * Access to the small status files of the system: `/proc/meminfo` and the files of control groups.
 */
import * as Context from "effect/Context"

/** Returns the text of a file by its absolute path, or undefined if it cannot be read. */
export type SystemFiles = (path: string) => string | undefined

/**
 * The reader. Default: reads from this machine, synchronously, because the kernel serves these files from memory. Tests provide files from
 * another machine.
 */
export const SystemFiles: Context.Reference<SystemFiles> = Context.Reference("@stint/worker-fitness/SystemFiles", {
  defaultValue: () => (path: string) => {
    try {
      // `import "node:fs"` would slow down the start (DiskCheck.ts).
      return process.getBuiltinModule("node:fs").readFileSync(path, "utf8")
    } catch {
      return undefined
    }
  }
})
