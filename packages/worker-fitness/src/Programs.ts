/**
 * Programs that look at the machine: where they are, and one run of one of them.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { accessSync, constants, statSync } from "node:fs"
import { isAbsolute, join } from "node:path"

/** What a program said, and how it ended. */
export interface ProcessExit {
  /** Null where a signal ended it. */
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** A program could not be started, or did not end in time. The message says which, and why. */
export class ProgramError extends Schema.TaggedError<ProgramError>()("ProgramError", {
  /** False: it was never started. */
  started: Schema.Boolean,
  message: Schema.String,
  /** What it had written to standard output until then. */
  stdout: Schema.String
}) {}

/** How much of each output is kept. Characters. */
const MAX_OUTPUT = 65_536

/**
 * Where a program is: the first folder of `path` that has an executable file of this name. Nothing is started for that. Folders that are
 * not absolute are left out: what is found must not depend on where a worker stands.
 */
export const find = (name: string, path: string): string | undefined =>
  path.split(":").filter((folder) => isAbsolute(folder)).map((folder) => join(folder, name)).find((file) => {
    try {
      accessSync(file, constants.X_OK)
      return statSync(file).isFile()
    } catch {
      return false
    }
  })

/** The first line that says something, for a message. */
export const firstLine = (text: string): string | undefined =>
  text.split("\n").map((line) => line.trim()).find((line) => line !== "")

/** The last one. */
export const lastLine = (text: string): string | undefined =>
  text.split("\n").map((line) => line.trim()).findLast((line) => line !== "")

/** `exit code 9`, or the signal that ended it. */
export const describeExit = ({ code, signal }: ProcessExit): string =>
  code === null ? signal ?? "an unknown end" : `exit code ${code}`

/**
 * Runs a program without a shell, and waits for its end. It is killed when it takes longer than `limit` seconds, and when the one that
 * waits is interrupted. It stays in the worker's process group, so that whoever ends the group ends it, too.
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
      // Fetched here, so that importing this file does not load it.
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
        // A child of it may hold the other ends.
        child.stdout.destroy()
        child.stderr.destroy()
        child.unref()
      })
    }).pipe(Effect.timeoutOrElse({
      duration: `${limit} seconds`,
      orElse: () => new ProgramError({ started: true, message: `${program} did not end within ${limit} s`, stdout })
    }))
  })
