/**
 * A separate user for workers, so that the operating system keeps handlers away from the platform's files, memory and environment. Only a
 * platform that runs as root can start processes of other users.
 */
import { chmodSync, chownSync, mkdirSync } from "node:fs"
import { dirname, join } from "node:path"

/** A user of the operating system. */
export interface WorkerUser {
  readonly uid: number
  /** The only group of the workers: the platform's supplementary groups are dropped. */
  readonly gid: number
  /** Login name, for `USER` and `LOGNAME`. */
  readonly name: string
  /** Home folder, for `HOME`. */
  readonly home: string
}

/** Variables that point to folders of the platform's user. */
const OF_USER = /^(?:HOME|USER|LOGNAME|SHELL|TMPDIR|TMP|TEMP|XDG_\w+)$/

/** The inherited environment with the user's own name and home. */
export const environmentOf = (user: WorkerUser, inherited: Readonly<Record<string, string>>): Record<string, string> => ({
  ...Object.fromEntries(Object.entries(inherited).filter(([name]) => !OF_USER.test(name))),
  HOME: user.home,
  USER: user.name,
  LOGNAME: user.name
})

/** The folders that workers use, and the permissions of the bundles in them. */
export interface WorkerFolders {
  readonly compileCache: string
  readonly bundles: string
  readonly permissions: BundlePermissions
}

/** Permissions of bundles. */
export interface BundlePermissions {
  readonly file: number
  readonly folder: number
}

/** Bundles that only the platform's user can read. */
export const OWNER_ONLY: BundlePermissions = { file: 0o600, folder: 0o700 }

/** Creates a folder and its missing parents with these permissions, whatever the umask. */
const makeFolder = (folder: string, mode: number): void => {
  const first = mkdirSync(folder, { recursive: true, mode })
  if (first === undefined) return
  for (let path = folder; path.length >= first.length; path = dirname(path)) chmodSync(path, mode)
}

/**
 * Creates the folders. Workers write the compile cache, and only read the bundles. With `per-endpoint`, workers have a compile cache in the
 * home folder of their endpoint instead. Throws when a folder cannot be created.
 */
export const makeFolders = (directory: string, user: WorkerUser | "per-endpoint" | undefined): WorkerFolders => {
  const compileCache = join(directory, "compile-cache")
  const bundles = join(directory, "bundles")
  const permissions = user === undefined ? OWNER_ONLY : { file: 0o644, folder: 0o755 }
  for (const folder of user === "per-endpoint" ? [bundles, join(directory, "homes")] : [bundles, compileCache]) {
    makeFolder(folder, permissions.folder)
  }
  if (user !== undefined && user !== "per-endpoint") {
    chmodSync(compileCache, 0o700)
    chownSync(compileCache, user.uid, user.gid)
  }
  return { compileCache, bundles, permissions }
}
