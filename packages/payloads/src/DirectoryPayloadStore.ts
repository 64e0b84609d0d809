/**
 * Stores payloads as files in one folder.
 *
 * ```
 *   FOLDER/.stint-payloads        marks the folder: without it the disk is not mounted, and objects are unavailable, not missing
 *   FOLDER/.parts/UUID  --sync, rename, sync of the folders--> FOLDER/a/key.of/an-object
 * ```
 *
 * An object appears under its key only when it is complete and on disk. Opening the folder removes the incomplete files that a crash
 * left behind.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { randomUUID } from "node:crypto"
import { constants } from "node:fs"
import { access, chmod, mkdir, open, readdir, rename, rm, rmdir, stat, writeFile } from "node:fs/promises"
import { dirname, join, resolve } from "node:path"
import process from "node:process"
import { Damaged, Missing, PayloadError, Unavailable } from "./PayloadError.ts"
import { PayloadKey, PayloadStore } from "./PayloadStore.ts"

/** The folder. */
export interface Options {
  /** Created if it does not exist. Only its owner can read it: wider permissions are corrected, or refused if it holds other files. */
  readonly folder: string
}

const MARKER = ".stint-payloads"
const PARTS = ".parts"

/** The number of attempts for a write. A write is retried when a concurrent removal deletes the empty folder of its object. */
const MAX_ATTEMPTS = 5

const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : undefined

/** Explanations by error code. */
const HINTS: Readonly<Record<string, string>> = {
  ENOSPC: "the disk is full",
  EDQUOT: "the disk quota is used up",
  EACCES: "this process has no permission to read or write the folder",
  EPERM: "this process has no permission to read or write the folder",
  EROFS: "the disk is mounted read-only",
  EIO: "the disk reported an error; check the system log"
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

/** Creates the folder and its parents below the root, and syncs them to disk. */
const makeFolder = async (root: string, folder: string): Promise<void> => {
  const first = await mkdir(folder, { recursive: true, mode: 0o700 })
  if (first === undefined) return
  for (let path = folder; path.length >= Math.max(root.length, dirname(first).length); path = dirname(path)) {
    await syncFolder(path)
    if (path === dirname(path)) break
  }
}

/** Permissions of a group and of all other users. */
const OTHERS = 0o077

/**
 * Corrects the permissions of an existing folder that other users can access. Throws when the folder holds other files, whose readers would
 * lose their access, or when this process cannot change the permissions.
 */
const restrict = async (root: string): Promise<void> => {
  // Windows has no such permissions: folders inherit the permissions of the user's profile.
  if (process.platform === "win32") return
  const { mode, uid } = await stat(root)
  if ((mode & OTHERS) === 0) return
  const words = `other users can access it (mode ${(mode & 0o777).toString(8)})`
  const entries = await readdir(root)
  if (entries.length > 0 && !entries.includes(MARKER)) {
    throw new Error(`${words}, and it contains other files. Use an empty folder, or run \`chmod 700 ${root}\``)
  }
  await chmod(root, 0o700).catch(() => {})
  if (((await stat(root)).mode & OTHERS) !== 0) {
    throw new Error(
      `${words}, and this process cannot change that, because it belongs to user ${uid}. Run \`chmod 700 ${root}\` as that user, or use a ` +
        "folder inside it"
    )
  }
}

const openFolder = async (root: string): Promise<void> => {
  await mkdir(root, { recursive: true, mode: 0o700 })
  await restrict(root)
  await mkdir(join(root, PARTS), { recursive: true, mode: 0o700 })
  for (const part of await readdir(join(root, PARTS))) await rm(join(root, PARTS, part), { force: true })
  await writeFile(join(root, MARKER), "Large payloads of Stint. Do not change the files in this folder.\n", { mode: 0o600 })
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
        if (codeOf(error) !== "ENOENT" || tries === MAX_ATTEMPTS) throw error
      }
    }
  } catch (error) {
    await rm(part, { force: true }).catch(() => {})
    throw error
  }
}

const isAbsent = (error: unknown): boolean => codeOf(error) === "ENOENT" || codeOf(error) === "ENOTDIR"

/** Reads the file. Returns its actual size if it differs from `size`, and undefined if the file does not exist. */
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

/** Removes the folder and its parents below the root, as long as they are empty. */
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

/** The paths of the files below a folder, relative to the root. */
const filesBelow = async function*(root: string, path: string): AsyncGenerator<string> {
  let entries
  try {
    entries = await readdir(join(root, path), { withFileTypes: true })
  } catch (error) {
    // A concurrent removal deleted the empty folder.
    if (codeOf(error) === "ENOENT") return
    throw error
  }
  for (const entry of entries) {
    // Skip the marker and the folder of incomplete files.
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

  /** Fails if the folder itself no longer exists. */
  const present = (operation: Unavailable["operation"]) =>
    Effect.tryPromise({
      try: () => access(join(root, MARKER)),
      catch: () => unavailable(operation, "the folder no longer exists; is its disk mounted?")
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
          // Skip files that this store did not write.
          Stream.filter(isKey)
        )
      ))
  })
})

/** Payloads in a folder. Fails with `Unavailable` if the folder cannot be written. */
export const layer = (options: Options): Layer.Layer<PayloadStore, PayloadError> => Layer.effect(PayloadStore, make(options))
