/**
 * Another user for workers, so that the operating system keeps handlers away from the platform's files, memory and environment. Only a
 * platform that runs as root can start processes of other users.
 */
import { chmodSync, chownSync, mkdirSync } from "node:fs"
import { join } from "node:path"

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

/** Creates the folders. Workers write the compile cache, and only read the bundles. Throws when a folder cannot be created. */
export const makeFolders = (directory: string, user: WorkerUser | undefined): WorkerFolders => {
  const compileCache = join(directory, "compile-cache")
  const bundles = join(directory, "bundles")
  const permissions = user === undefined ? OWNER_ONLY : { file: 0o644, folder: 0o755 }
  for (const folder of [directory, bundles, compileCache]) mkdirSync(folder, { recursive: true, mode: permissions.folder })
  if (user !== undefined) {
    // The umask may have removed permissions that the workers need.
    for (const folder of [directory, bundles]) chmodSync(folder, permissions.folder)
    chmodSync(compileCache, 0o700)
    chownSync(compileCache, user.uid, user.gid)
  }
  return { compileCache, bundles, permissions }
}
