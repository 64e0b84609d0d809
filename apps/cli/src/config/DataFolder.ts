/**
 * The data folder, which only its owner may access: it contains inputs, results and the secrets of endpoints.
 *
 * ```
 *   does not exist                                  created with mode 0700
 *   accessible to other users, only Stint's files   corrected: 0700, its files 0600
 *   accessible to other users, other files too      refused: their readers would lose access
 *   accessible to other users, not this user's      refused
 * ```
 *
 * Windows has no such permissions: folders inherit those of the user's profile.
 */
import * as Effect from "effect/Effect"
import { chmod, lstat, mkdir, readdir, stat } from "node:fs/promises"
import { basename, join, resolve } from "node:path"
import process from "node:process"
import { CliFailure } from "../CliFailure.ts"

const OTHERS = 0o077

/** The default name of the folder. A folder with this name has no other purpose. */
const DEFAULT_NAME = ".stint"

/** Stint's entries in the folder. `lost+found` is part of an empty disk. */
const isOwn = (name: string): boolean =>
  /^stint\b/.test(name) || /^(?:api-key|admin-key|worker-secret|secrets-key|payloads)(?:\.|$)/.test(name) ||
  name.startsWith("before-restore-") || ["workers", "bundles", "compile-cache", "lost+found", "restore-new"].includes(name)

const refusal = (folder: string, mode: number, reason: string) =>
  new CliFailure({
    message: `Other users can access the data folder ${folder} (mode ${(mode & 0o777).toString(8)}), and ${reason}.`,
    hint: `Run \`chmod 700 ${folder}\`, or let the platform create a folder of its own: STINT_DATA_DIR=${join(folder, "stint")}.`
  })

const narrow = async (path: string, mode: number): Promise<void> => {
  const found = await lstat(path)
  // A link's target may be anything.
  if (!found.isSymbolicLink() && (found.mode & OTHERS) !== 0) await chmod(path, mode).catch(() => {})
}

const secure = async (folder: string): Promise<CliFailure | undefined> => {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const { mode, uid } = await stat(folder)
  const entries = await readdir(folder, { withFileTypes: true })
  if ((mode & OTHERS) !== 0) {
    const foreign = basename(folder) === DEFAULT_NAME ? undefined : entries.find(({ name }) => !isOwn(name))
    if (foreign !== undefined) return refusal(folder, mode, `it contains "${foreign.name}", which is not a Stint file`)
    await chmod(folder, 0o700).catch(() => {})
    const left = (await stat(folder)).mode
    if ((left & OTHERS) !== 0) {
      const owned = uid === process.getuid?.() ? "its file system ignores permissions" : `it belongs to user ${uid}`
      return refusal(folder, left, `the platform cannot change that because ${owned}`)
    }
  }
  for (const entry of entries) {
    if (isOwn(entry.name)) await narrow(join(folder, entry.name), entry.isDirectory() ? 0o700 : 0o600)
  }
  return undefined
}

/** Creates the folder, or checks and corrects its permissions and those of its files. Returns its absolute path. */
export const open = Effect.fn("DataFolder.open")(function*(dataDir: string): Effect.fn.Return<string, CliFailure> {
  const folder = resolve(dataDir)
  const refused = yield* Effect.tryPromise({
    try: () => process.platform === "win32" ? mkdir(folder, { recursive: true }).then(() => undefined) : secure(folder),
    catch: (cause) =>
      new CliFailure({
        message: `The data folder ${folder} cannot be used: ${cause instanceof Error ? cause.message : String(cause)}`,
        hint: "Make it readable and writable for this user, or set STINT_DATA_DIR to another folder."
      })
  })
  if (refused !== undefined) return yield* refused
  return folder
})
