/**
 * Restores a backup into a data folder.
 *
 * ```
 *   read the archive into DATA/restore-new, and payloads into FOLDER/.restore-ID      nothing in use is touched
 *   compare the digests, check the database                                           a failure removes both
 *   with --replace: move the existing files to DATA/before-restore-TIME                nothing is deleted
 *   move the keys, then the code of releases, then the payloads, then the database into place
 * ```
 *
 * A platform cannot start between the last two steps, because `stint.db.created` exists without a database.
 */
import * as StoppedDatabase from "@stint/store-sqlite/StoppedDatabase"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { randomUUID } from "node:crypto"
import { existsSync } from "node:fs"
import { mkdir, open, readdir, rename, rm, writeFile } from "node:fs/promises"
import { dirname, join } from "node:path"
import { CliFailure } from "../CliFailure.ts"
import * as DataFolder from "../config/DataFolder.ts"
import type { PayloadLocation } from "../config/PayloadConfig.ts"
import * as PrivateFile from "../config/PrivateFile.ts"
import * as PayloadStores from "../platform/PayloadStores.ts"
import { DATABASE, folderOf, KEY_FILES, type Manifest, PAYLOADS, RELEASES } from "./BackupFormat.ts"
import * as BackupReader from "./BackupReader.ts"

/** What to restore, and where to. */
export interface Options {
  /** The archive; `-` is the standard input. */
  readonly file: string
  readonly dataDir: string
  /** The value of `STINT_PAYLOADS`. */
  readonly payloads: Option.Option<PayloadLocation>
  /** Whether to move the files of an existing platform out of the folder. */
  readonly replace: boolean
}

/** A restored platform. */
export interface Restored extends BackupReader.Contents {
  /** The folder with the replaced files; undefined if there were none. */
  readonly moved: string | undefined
}

const MARKER = `${DATABASE}.created`

/** Files that stay in the folder: the marker, and the file that only reserves space. */
const isReplaced = (name: string): boolean =>
  (name.startsWith(DATABASE) && name !== MARKER && name !== `${DATABASE}.reserve`) || name === "api-key" ||
  KEY_FILES.some((known) => known === name)

const isPresent = (name: string): boolean => isReplaced(name) || name === MARKER

/** Writes a file, readable only by its owner, and waits until it is on disk. */
const writeDurably = async (path: string, body: AsyncIterable<Uint8Array>): Promise<void> => {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const handle = await open(path, "wx", 0o600)
  try {
    for await (const chunk of body) await handle.writeFile(chunk)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const tooNew = ({ stint, tables }: Manifest) =>
  new CliFailure({
    message:
      `The backup was made by a newer Stint: its tables have version ${tables}; this version supports up to ${StoppedDatabase.SUPPORTED_TABLES}.`,
    hint: `Restore it with Stint ${stint} or newer. Nothing was changed.`
  })

/** The folder for the backup's payloads; undefined when the backup contains none. Fails when the settings do not fit. */
const payloadFolder = ({ payloads }: Manifest, configured: Option.Option<PayloadLocation>): string | undefined => {
  if (payloads === null) return undefined
  const location = Option.getOrUndefined(configured)
  if (!payloads.included) {
    if (location?._tag === "Bucket") return undefined
    throw new CliFailure({
      message: `The large payloads of this platform are in ${payloads.location}, which is not part of the backup.`,
      hint:
        "Set STINT_PAYLOADS and its keys to this bucket, or to one with a copy of its objects, for `stint restore` and for the platform."
    })
  }
  if (location?._tag === "Directory") return location.folder
  throw new CliFailure({
    message: `The backup contains large payloads, which were in ${payloads.location}.`,
    hint: `Name a folder for them, for \`stint restore\` and for the platform: STINT_PAYLOADS=dir:${
      folderOf(payloads.location) ?? "/srv/payloads"
    }`
  })
}

/** Fails only if a platform uses the database; ignores other problems. */
const checkStopped = (file: string): Effect.Effect<void, CliFailure> =>
  !existsSync(file) ? Effect.void : StoppedDatabase.checkUnused(file).pipe(
    Effect.catch((error) =>
      error.reason._tag === "FileLocked"
        ? new CliFailure({ message: error.message, hint: "Stop the platform, then restore." })
        : Effect.void
    )
  )

const checkTarget = Effect.fnUntraced(function*(dataDir: string, replace: boolean) {
  yield* checkStopped(join(dataDir, DATABASE))
  const present = (yield* Effect.promise(() => readdir(dataDir))).filter(isPresent)
  if (present.length === 0 || replace) return
  return yield* new CliFailure({
    message: `The data folder ${dataDir} already contains a platform (${present.sort().join(", ")}).`,
    hint:
      `Restore into another folder: STINT_DATA_DIR=... stint restore. Or add --replace, which moves these files to a folder ` +
      `${join(dataDir, "before-restore-...")} and deletes nothing.`
  })
})

/** The paths of one restore. */
interface Places {
  readonly dataDir: string
  readonly staging: string
  /** Where the payloads are extracted before they move to their owner's folder. */
  readonly payloadStaging: (folder: string) => string
}

/** Moves existing files to a new folder. Returns the folder, if there were any. */
const moveAside = async (dataDir: string, stamp: string): Promise<string | undefined> => {
  const present = (await readdir(dataDir)).filter(isReplaced)
  if (present.length === 0) return undefined
  const aside = join(dataDir, `before-restore-${stamp}`)
  await mkdir(aside, { mode: 0o700 })
  // Moves the database first: a platform that is started from then on refuses to create a new one.
  for (const name of present.sort((a) => a === DATABASE ? -1 : 0)) await rename(join(dataDir, name), join(aside, name))
  return aside
}

const place = async (
  { dataDir, payloadStaging, staging }: Places,
  manifest: Manifest,
  folder: string | undefined,
  stamp: string
): Promise<string | undefined> => {
  if (!existsSync(join(dataDir, MARKER))) {
    await writeFile(join(dataDir, MARKER), `A backup was restored here at ${stamp}.\n`, { mode: 0o600 })
  }
  const moved = await moveAside(dataDir, stamp)
  for (const name of KEY_FILES) {
    if (existsSync(join(staging, name))) await rename(join(staging, name), join(dataDir, name))
  }
  // The code is named by its hash, so existing files are identical. The platform removes code that no release refers to.
  const code = join(staging, RELEASES)
  if (existsSync(code)) {
    await mkdir(join(dataDir, RELEASES), { recursive: true, mode: 0o700 })
    for (const name of await readdir(code)) {
      if (!existsSync(join(dataDir, RELEASES, name))) await rename(join(code, name), join(dataDir, RELEASES, name))
    }
  }
  if (folder !== undefined && manifest.payloads !== null) {
    const owned = join(folder, manifest.payloads.owner)
    // Hidden folders are not listed, so the sweep leaves the old objects alone.
    if (existsSync(owned)) await rename(owned, join(folder, `.${manifest.payloads.owner}.before-restore-${stamp}`))
    if (existsSync(payloadStaging(folder))) await rename(payloadStaging(folder), owned)
  }
  await rename(join(staging, DATABASE), join(dataDir, DATABASE))
  return moved
}

/** Restores the backup. Fails without a change if the backup or the folder is unsuitable. */
export const run = Effect.fn("Restore.run")(function*(options: Options): Effect.fn.Return<Restored, CliFailure> {
  const dataDir = yield* DataFolder.open(options.dataDir)
  yield* checkTarget(dataDir, options.replace)
  const id = randomUUID()
  const stamp = DateTime.formatIso(yield* DateTime.now).replaceAll(":", "-")
  const staging = join(dataDir, "restore-new")
  const payloadStaging = (folder: string) => join(folder, `.restore-${id}`)
  let folder: string | undefined

  const receiver: BackupReader.Receiver = {
    begin: async (manifest) => {
      if (manifest.tables > StoppedDatabase.SUPPORTED_TABLES) throw tooNew(manifest)
      folder = payloadFolder(manifest, options.payloads)
      await rm(staging, { recursive: true, force: true })
      await mkdir(staging, { mode: 0o700 })
      if (folder !== undefined) await mkdir(payloadStaging(folder), { recursive: true, mode: 0o700 })
    },
    file: (name, body) => {
      const path = name.startsWith(PAYLOADS) && folder !== undefined
        ? join(payloadStaging(folder), name.slice(PAYLOADS.length))
        : join(staging, name)
      return writeDurably(path, body)
    }
  }
  return yield* Effect.gen(function*() {
    const contents = yield* BackupReader.read(options.file, receiver)
    const { payloads } = contents.manifest
    if (payloads !== null && Option.isSome(options.payloads)) {
      const record = { owner: payloads.owner, location: PayloadStores.nameOf(options.payloads.value) }
      yield* Effect.mapError(
        PrivateFile.write(join(staging, "payloads.json"), `${JSON.stringify(record, null, 2)}\n`),
        ({ message }) => new CliFailure({ message: `The restore failed: ${message}`, hint: "Nothing was changed." })
      )
    }
    yield* Effect.mapError(
      StoppedDatabase.check(join(staging, DATABASE)),
      ({ message }) =>
        new CliFailure({ message, hint: "Nothing was changed. Use another copy of the backup, or an earlier one." })
    )
    // A platform may have started since the first check.
    yield* checkStopped(join(dataDir, DATABASE))
    const moved = yield* Effect.uninterruptible(Effect.tryPromise({
      try: () => place({ dataDir, staging, payloadStaging }, contents.manifest, folder, stamp),
      catch: (cause) =>
        new CliFailure({
          message: `The restored files could not be moved into place: ${String(cause)}`,
          hint:
            `The platform does not start with an incomplete folder. Remove the cause, and restore again with --replace. The files from before are in ${
              join(dataDir, `before-restore-${stamp}`)
            }.`
        })
    }))
    return { ...contents, moved }
  }).pipe(
    Effect.ensuring(Effect.promise(async () => {
      await rm(staging, { recursive: true, force: true })
      if (folder !== undefined) await rm(payloadStaging(folder), { recursive: true, force: true })
    }))
  )
})
