/**
 * Payloads as files of one folder.
 *
 * ```
 *   FOLDER/.stint-payloads        says that the folder is there: an unmounted disk is no reason to call every object missing
 *   FOLDER/.parts/UUID  --sync, rename, sync of the folders--> FOLDER/a/key.of/an-object
 * ```
 *
 * An object appears under its key when it is whole and on disk. What a crash left of a write is removed when the folder is opened again.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { randomUUID } from "node:crypto"
import { constants } from "node:fs"
import { access, mkdir, open, readdir, rename, rm, rmdir, writeFile } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import { Damaged, Missing, PayloadError, Unavailable } from "./PayloadError.ts"
import { PayloadKey, PayloadStore } from "./PayloadStore.ts"

/** Where. */
export interface Options {
  /** Created, for its owner only, where it does not exist. */
  readonly folder: string
}

const MARKER = ".stint-payloads"
const PARTS = ".parts"

/** How often a write begins anew because the folder of its object was just removed for being empty. */
const TRIES = 5

const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined

/** What people can do about it. */
const HINTS: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full",
  EDQUOT: "the disk quota is used up",
  EACCES: "the folder may not be read or written",
  EPERM: "the folder may not be read or written",
  EROFS: "the disk is mounted read-only",
  EIO: "the disk reported an error; look at the system's log"
}

const problemOf = (error: unknown): string => {
  const code = codeOf(error)
  if (code !== undefined) return HINTS[code] ?? code
  return error instanceof Error ? error.message : String(error)
}

const syncFolder = async (path: string): Promise<void> => {
  const handle = await open(path, constants.O_RDONLY)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** A folder and all between it and the root exist, on disk. */
const makeFolder = async (root: string, folder: string): Promise<void> => {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  for (let path = folder; path.length >= Math.max(root.length, dirname(first).length); path = dirname(path)) {
    await syncFolder(path)
    if (path === dirname(path)) break
  }
}

const openFolder = async (root: string): Promise<void> => {
  await mkdir(join(root, PARTS), { recursive: true, mode: 0o700 })
  for (const part of await readdir(join(root, PARTS))) await rm(join(root, PARTS, part), { force: true })
  await writeFile(join(root, MARKER), "Large payloads of Stint. Do not change what is in here.\n", { mode: 0o600 })
  await syncFolder(root)
}

const write = async (root: string, target: string, bytes: Uint8Array): Promise<void> => {
  const part = join(root, PARTS, randomUUID())
  try {
    const handle = await open(part, "wx", 0o600)
    try {
      await handle.writeFile(bytes)
      await handle.sync()
    } finally {
      await handle.close()
    }
    for (let tries = 1;; tries++) {
      try {
        await makeFolder(root, dirname(target))
        await rename(part, target)
        await syncFolder(dirname(target))
        return
      } catch (error) {
        if (codeOf(error) !== "ENOENT" || tries === TRIES) throw error
      }
    }
  } catch (error) {
    await rm(part, { force: true }).catch(() => {})
    throw error
  }
}

const isAbsent = (error: unknown): boolean => codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR"

/** The file; how many bytes it has where these are not `size`; undefined where there is none. */
const read = async (path: string, size: number): Promise<Uint8Array | number | undefined> => {
  let handle
  try {
    handle = await open(path, constants.O_RDONLY)
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw error
  }
  try {
    const stat = await handle.stat()
    if (!stat.isFile()) return undefined
    if (stat.size !== size) return stat.size
    const bytes = await handle.readFile()
    return bytes.byteLength === size ? bytes : bytes.byteLength
  } finally {
    await handle.close()
  }
}

/** Removes folders that are empty, up to the root. */
const removeEmpty = async (root: string, folder: string): Promise<void> => {
  for (let path = folder; path.length > root.length; path = dirname(path)) {
    try {
      await rmdir(path)
    } catch {
      return
    }
  }
}

const isKey = Schema.is(PayloadKey)

/** The files below a folder, each as its path from the root. */
const filesBelow = async function*(root: string, path: string): AsyncGenerator<string> {
  let entries
  try {
    entries = await readdir(join(root, path), { withFileTypes: true })
  } catch (error) {
    // It was removed meanwhile, for being empty.
    if (codeOf(error) === "ENOENT") return
    throw error
  }
  for (const entry of entries) {
    // Ours: folders that hold no objects, and files that are none.
    if (entry.name.startsWith(".")) continue
    const below = `${path}/${entry.name}`
    if (entry.isDirectory()) yield* filesBelow(root, below)
    else if (entry.isFile()) yield below
  }
}

const make = Effect.fnUntraced(function*({ folder }: Options) {
  const root = resolve(folder)
  const description = `the folder ${root}`

  const unavailable = (operation: Unavailable["operation"], problem: string) =>
    new PayloadError({ store: description, reason: new Unavailable({ operation, problem }) })

  const attempt = <A>(operation: Unavailable["operation"], run: () => Promise<A>): Effect.Effect<A, PayloadError> =>
    Effect.tryPromise({ try: run, catch: (error) => unavailable(operation, problemOf(error)) })

  /** Fails where the folder itself is gone. */
  const present = (operation: Unavailable["operation"]) =>
    Effect.tryPromise({
      try: () => access(join(root, MARKER)),
      catch: () => unavailable(operation, "the folder is not there any more; is its disk mounted?")
    })

  yield* attempt("open", () => openFolder(root))

  return PayloadStore.of({
    description,
    put: (key, bytes) => Effect.andThen(present("put"), attempt("put", () => write(root, join(root, key), bytes))),
    get: (key, size) =>
      Effect.flatMap(attempt("get", () => read(join(root, key), size)), (found): Effect.Effect<Uint8Array, PayloadError> => {
        if (found === undefined) {
          return Effect.andThen(present("get"), new PayloadError({ store: description, reason: new Missing({ key }) }))
        }
        if (typeof found !== "number") return Effect.succeed(found)
        const problem = `it has ${found} bytes, not ${size}`
        return new PayloadError({ store: description, reason: new Damaged({ key, problem }) })
      }),
    remove: (key) =>
      attempt("remove", async () => {
        await rm(join(root, key), { force: true })
        await removeEmpty(root, dirname(join(root, key)))
      }),
    list: (path) =>
      Stream.unwrap(Effect.as(
        present("list"),
        Stream.fromAsyncIterable(filesBelow(root, path), (error) => unavailable("list", problemOf(error))).pipe(
          // What somebody else put into the folder is none of ours.
          Stream.filter(isKey)
        )
      ))
  })
})

/** The objects of a folder. Fails with `Unavailable` where it cannot be written to. */
export const layer = (options: Options): Layer.Layer<PayloadStore, PayloadError> => Layer.effect(PayloadStore, make(options))
