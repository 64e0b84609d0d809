/**
 * Whether a module is the program of this process, as opposed to a module that a test or another program imports
 * (docs/decisions/0025-imported-handlers.md).
 */

/** `import.meta`, or in CommonJS `module`. */
export interface MainModule {
  /** A member of `import.meta`. Node sets it since version 24.2, and the pool's bundles set it for each source file. */
  readonly main?: boolean | undefined
  /** A member of `import.meta`. */
  readonly url?: string | undefined
  /** A member of a CommonJS `module`: `.` for the program. */
  readonly id?: string | undefined
}

/** The file that Node runs, without symbolic links and with the extension that the command line may omit. */
const programFile = (): string | undefined => {
  const [, program] = process.argv
  if (program === undefined) return undefined
  const { createRequire } = process.getBuiltinModule("node:module")
  try {
    return process.getBuiltinModule("node:fs").realpathSync(createRequire(program).resolve(program))
  } catch {
    return program
  }
}

/**
 * Whether this module is the program of the process. True when the module cannot be identified, as in a CommonJS bundle, because a worker that
 * does not start is worse than one that starts in an import.
 */
export const isMain = ({ id, main, url }: MainModule): boolean => {
  if (main !== undefined) return main
  if (id !== undefined) return id === "."
  if (url === undefined || !url.startsWith("file:")) return true
  const { fileURLToPath } = process.getBuiltinModule("node:url")
  return process.getBuiltinModule("node:fs").realpathSync(fileURLToPath(url)) === programFile()
}
