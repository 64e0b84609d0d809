/**
 * Finds and runs the programs that check the machine.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { isAbsolute, join } from "node:path"

/** The output and the exit status of a program. */
export interface ProcessExit {
  /** Null if a signal ended the program. */
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** A program could not be started, or exceeded its time limit. The message names the program and the cause. */
export class ProgramError extends Schema.TaggedError<ProgramError>()("ProgramError", {
  /** Whether the program was started. */
  started: Schema.Boolean,
  message: Schema.String,
  /** Its standard output up to the failure. */
  stdout: Schema.String
}) {}

/** The part of each output that is kept. Characters. */
const MAX_OUTPUT = 65_536

/**
 * Finds a program in the first folder of `path` that contains an executable file with this name, without running it. Relative folders are
 * skipped, because the result must not depend on the working directory.
 */
export const find = (name: string, path: string): string | undefined => {
  // `import "node:fs"` would slow down the start (DiskCheck.ts).
  const { accessSync, constants, statSync } = process.getBuiltinModule("node:fs")
  return path.split(":").filter((folder) => isAbsolute(folder)).map((folder) => join(folder, name)).find((file) => {
    try {
      accessSync(file, constants.X_OK)
      return statSync(file).isFile()
    } catch {
      return false
    }
  })
}

/** The first line that is not blank, for a message. */
export const firstLine = (text: string): string | undefined =>
  text.split("\n").map((line) => line.trim()).find((line) => line !== "")

/** The last line that is not blank, for a message. */
export const lastLine = (text: string): string | undefined =>
  text.split("\n").map((line) => line.trim()).findLast((line) => line !== "")

/** Describes the end of a program: `exit code 9`, or the name of the signal. */
export const describeExit = ({ code, signal }: ProcessExit): string =>
  code === null ? signal ?? "an unknown exit status" : `exit code ${code}`

/**
 * Runs a program without a shell and waits for its end. The program is killed after `limit` seconds and when this effect is interrupted.
 * It stays in the worker's process group, so that a signal to the group reaches it too.
 */
export const run = (program: string, args: ReadonlyArray<string>, limit: number): Effect.Effect<ProcessExit, ProgramError> =>
  Effect.suspend(() => {
    let stdout = ""
    let stderr = ""
    return Effect.callback<ProcessExit, ProgramError>((resume) => {
      const notStarted = (error: NodeJS.ErrnoException) =>
        resume(
          new ProgramError({ started: false, message: `${program} cannot be started (${error.code ?? error.message})`, stdout })
        )
      // Loaded here to keep the import of this file cheap.
      const { spawn } = process.getBuiltinModule("node:child_process")
      const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] })
      child.on("error", notStarted)
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        stdout = (stdout + text).slice(0, MAX_OUTPUT)
      })
      child.stderr.setEncoding("utf8").on("data", (text: string) => {
        stderr = (stderr + text).slice(0, MAX_OUTPUT)
      })
      child.on("close", (code, signal) => resume(Effect.succeed({ code, signal, stdout, stderr })))
      return Effect.sync(() => {
        child.kill("SIGKILL")
        // A child process of the program may still hold the other ends of the pipes.
        child.stdout.destroy()
        child.stderr.destroy()
        child.unref()
      })
    }).pipe(Effect.timeoutOrElse({
      duration: `${limit} seconds`,
      orElse: () => new ProgramError({ started: true, message: `${program} did not end within ${limit} s`, stdout })
    }))
  })
