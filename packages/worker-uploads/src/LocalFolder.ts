/**
 * A folder in place of a bucket (docs/spec/uploads.md#upload-rule).
 *
 * A file appears under its name only when it is complete: it is first written to a temporary file in the same folder, and then renamed.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { mkdir, open, rename, rm } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { pathToFileURL } from "node:url"
import type { Content } from "./Content.ts"
import { FolderUnwritable, UploadError } from "./UploadError.ts"

/** The number of bytes that are written at once. */
const CHUNK = 1024 * 1024

/** Writes one file below the folder; `key` must be safe. Returns its address and its size. */
export const write = Effect.fnUntraced(function*<E, R>(
  folder: string,
  key: string,
  content: Content<E, R>
): Effect.fn.Return<{ readonly url: URL; readonly size: number }, UploadError | E, R> {
  const attempt = <A>(run: () => Promise<A>) =>
    Effect.tryPromise({
      try: run,
      catch: (error) => {
        const problem = error instanceof Error && "code" in error ? String(error.code) : String(error)
        return new UploadError({ reason: new FolderUnwritable({ folder: resolve(folder), problem }) })
      }
    })
  const target = resolve(join(folder, key))
  const partial = join(dirname(target), `.${crypto.randomUUID()}.part`)
  yield* attempt(() => mkdir(dirname(target), { recursive: true }))
  const copied = Effect.gen(function*() {
    const handle = yield* Effect.acquireRelease(
      attempt(() => open(partial, "wx")),
      (handle) => Effect.promise(() => handle.close())
    )
    const next = yield* content.read(CHUNK)
    let size = 0
    while (true) {
      const part = yield* next
      if (part === undefined) return size
      yield* attempt(() => handle.writeFile(part))
      size += part.byteLength
    }
  })
  const size = yield* Effect.scoped(copied).pipe(
    Effect.tap(() => attempt(() => rename(partial, target))),
    Effect.onExit((exit) => Exit.isSuccess(exit) ? Effect.void : Effect.ignore(attempt(() => rm(partial, { force: true }))))
  )
  return { url: pathToFileURL(target), size }
})
