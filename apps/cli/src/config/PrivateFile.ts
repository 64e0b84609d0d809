/**
 * Reads and writes files that only their owner may read, such as keys.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { chown, mkdir, open, readFile, rename, rm, stat } from "node:fs/promises"
import { dirname } from "node:path"
import process from "node:process"

/** The file cannot be read or written. The message is the system's. */
export class PrivateFileError extends Schema.TaggedError<PrivateFileError>()("PrivateFileError", {
  message: Schema.String
}) {}

const failed = (cause: unknown): PrivateFileError =>
  cause instanceof PrivateFileError
    ? cause
    : new PrivateFileError({ message: cause instanceof Error ? cause.message : String(cause) })

const isMissing = (error: unknown): boolean => error instanceof Error && "code" in error && error.code === "ENOENT"

/** The text of a file without surrounding white space. None if the file does not exist or is blank. */
export const read = (file: string): Effect.Effect<Option.Option<string>, PrivateFileError> =>
  Effect.tryPromise({
    try: () => readFile(file, "utf8").catch((error: unknown) => isMissing(error) ? "" : Promise.reject(failed(error))),
    catch: failed
  }).pipe(Effect.map((text) => Option.filter(Option.some(text.trim()), (trimmed) => trimmed !== "")))

/**
 * Replaces a file in one step, with mode 0600, and waits until it is on disk. Creates missing folders with mode 0700. A file that root writes
 * belongs to the owner of its folder, so that root can repair the files of a service's user.
 */
export const write = (file: string, text: string): Effect.Effect<void, PrivateFileError> =>
  Effect.tryPromise({
    try: async () => {
      await mkdir(dirname(file), { recursive: true, mode: 0o700 })
      const part = `${file}.${process.pid}.new`
      try {
        const handle = await open(part, "w", 0o600)
        try {
          await handle.writeFile(text)
          await handle.sync()
        } finally {
          await handle.close()
        }
        if (process.getuid?.() === 0) {
          const { gid, uid } = await stat(dirname(file))
          await chown(part, uid, gid)
        }
        await rename(part, file)
      } catch (error) {
        await rm(part, { force: true })
        throw error
      }
    },
    catch: failed
  })
