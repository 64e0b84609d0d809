/**
 * `stint backup` writes an archive of the platform, and `stint restore` creates a platform from it (docs/operations/backup.md).
 */
import * as StoppedDatabase from "@stint/store-sqlite/StoppedDatabase"
import { Argument, Command, Flag } from "effect/cli"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { randomUUID } from "node:crypto"
import { existsSync, rmSync } from "node:fs"
import { open, rename, rm } from "node:fs/promises"
import { join, resolve } from "node:path"
import process from "node:process"
import { DATABASE } from "../backup/BackupFormat.ts"
import * as BackupReader from "../backup/BackupReader.ts"
import * as BackupWriter from "../backup/BackupWriter.ts"
import * as Restore from "../backup/Restore.ts"
import { call, layer as layerClient, PlatformClient } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as PlatformConfig from "../config/PlatformConfig.ts"
import * as Output from "../output/Output.ts"
import { json } from "./SharedFlags.ts"

const sizeText = (bytes: number): string => `${(bytes / 1_048_576).toFixed(1)} MiB`

const failedTo = (what: string) => (cause: unknown) =>
  cause instanceof CliFailure
    ? cause
    : new CliFailure({ message: `${what}: ${cause instanceof Error ? cause.message : String(cause)}`, hint: "" })

const toStdout = (archive: AsyncIterable<Uint8Array>) => async () => {
  for await (const chunk of archive) {
    if (!process.stdout.write(chunk)) await new Promise((next) => process.stdout.once("drain", next))
  }
}

const toFile = (path: string, archive: AsyncIterable<Uint8Array>) => async () => {
  const handle = await open(path, "wx", 0o600)
  try {
    for await (const chunk of archive) await handle.writeFile(chunk)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Writes the archive, reads it again to compare the digests, and moves it into place. A failure does not change an earlier backup. */
const save = Effect.fnUntraced(function*(file: string, archive: AsyncIterable<Uint8Array>) {
  if (file === "-") {
    yield* Effect.tryPromise({ try: toStdout(archive), catch: failedTo("The backup could not be written") })
    return undefined
  }
  const part = `${file}.${process.pid}.part`
  return yield* Effect.gen(function*() {
    yield* Effect.tryPromise({ try: toFile(part, archive), catch: failedTo(`The backup could not be written to ${part}`) })
    const contents = yield* BackupReader.read(part, BackupReader.verifyOnly)
    yield* Effect.tryPromise({ try: () => rename(part, file), catch: failedTo(`The backup could not be moved to ${file}`) })
    return contents
  }).pipe(Effect.ensuring(Effect.promise(() => rm(part, { force: true }))))
})

/** Backs up the folder of a platform that is not running. */
const saveStopped = Effect.fnUntraced(function*(file: string, dataDir: string) {
  const copy = join(dataDir, `${DATABASE}.backup-${randomUUID()}`)
  return yield* Effect.gen(function*() {
    const database = yield* Effect.mapError(
      StoppedDatabase.backup(join(dataDir, DATABASE), copy),
      ({ message }) => new CliFailure({ message, hint: "" })
    )
    return yield* save(file, BackupWriter.write({ dataDir, database, settings: { settings: {}, secrets: [] } }))
  }).pipe(Effect.ensuring(Effect.sync(() => rmSync(copy, { force: true }))))
})

const saveRunning = Effect.fnUntraced(function*(file: string) {
  const { url } = yield* PlatformClient
  const archive = yield* call((api) => api.backup.backup())
  return yield* save(
    file,
    yield* Stream.toAsyncIterableEffect(Stream.mapError(archive, failedTo(`The platform at ${url} ended the backup`)))
  )
})

/** Whether the data folder belongs to a platform that is not running. The lock shows this reliably; an address would not. */
const isStopped = (dataDir: string) =>
  Effect.gen(function*() {
    const url = yield* Effect.orElseSucceed(Config.option(Config.NonEmptyString("STINT_URL")), () => Option.none<string>())
    if (Option.isSome(url) || !existsSync(join(dataDir, DATABASE))) return false
    return yield* StoppedDatabase.checkUnused(join(dataDir, DATABASE)).pipe(Effect.as(true), Effect.orElseSucceed(() => false))
  })

/** `stint backup`. */
export const backup = Command.make(
  "backup",
  {
    file: Argument.String("file").pipe(Argument.withDescription("The archive to write; - is the standard output")),
    json
  },
  Effect.fnUntraced(function*({ file, json }) {
    const dataDir = resolve((yield* PlatformConfig.load).dataDir)
    const stopped = yield* isStopped(dataDir)
    if (stopped) yield* Output.message(`The platform is not running. Reading its data folder ${dataDir}.`)
    const contents = yield* (stopped ? saveStopped(file, dataDir) : saveRunning(file).pipe(Effect.provide(layerClient)))
    if (contents === undefined) return
    const { bytes, files, manifest } = contents
    yield* Output.print(json, { file, bytes, payloadFiles: files, ...manifest }, () =>
      [
        `Backed up everything up to ${manifest.moment} to ${file} (${
          sizeText(bytes)
        }, ${files} payload files; digests compared).`,
        ...(manifest.payloads?.included === false
          ? [`The large payloads in ${manifest.payloads.location} are not included.`]
          : []),
        "The archive contains inputs, results and secrets of the platform: keep it as safe as the data folder."
      ].join("\n"))
  })
).pipe(
  Command.withDescription("Write one archive of the database, payloads, keys and settings; the platform may be running"),
  Command.withExamples([
    { command: "stint backup stint.tar", description: "Back up the platform on this machine, running or stopped" },
    { command: "stint backup - | zstd > stint.tar.zst", description: "Compress the archive" }
  ])
)

/** `stint restore`. */
export const restore = Command.make(
  "restore",
  {
    file: Argument.String("file").pipe(Argument.withDescription("An archive that `stint backup` wrote; - reads standard input")),
    replace: Flag.Boolean("replace").pipe(
      Flag.withDescription(
        "Restore even if the data folder contains a platform, whose files move to a folder before-restore-TIME"
      ),
      Flag.withDefault(false)
    ),
    check: Flag.Boolean("check").pipe(
      Flag.withDescription("Only compare the digests of the archive; restore nothing"),
      Flag.withDefault(false)
    ),
    json
  },
  Effect.fnUntraced(function*({ check, file, json, replace }) {
    if (check) {
      const { bytes, files, manifest } = yield* BackupReader.read(file, BackupReader.verifyOnly)
      return yield* Output.print(
        json,
        { file, bytes, payloadFiles: files, ...manifest },
        () => `${file} is complete and undamaged (${sizeText(bytes)}). It contains everything up to ${manifest.moment}.`
      )
    }
    const settings = yield* PlatformConfig.load
    const dataDir = resolve(settings.dataDir)
    const { bytes, files, manifest, moved } = yield* Restore.run({
      file,
      dataDir,
      payloads: settings.payloads.location,
      replace
    })
    yield* Output.print(json, { dataDir, bytes, payloadFiles: files, moved: moved ?? null, ...manifest }, () => {
      const variables = Object.entries(manifest.settings).map(([name, value]) => `  ${name}=${value}`)
      return [
        `Restored everything up to ${manifest.moment} into ${dataDir} (${sizeText(bytes)}, ${files} payload files).`,
        ...(moved === undefined ? [] : [`The previous files are in ${moved}. Delete them when you no longer need them.`]),
        ...(variables.length === 0
          ? []
          : ["The platform ran with these settings, which the restore does not set:", ...variables]),
        ...(manifest.secrets.length === 0
          ? []
          : [`These were also set, but are not in the backup: ${manifest.secrets.join(", ")}`]),
        "Its keys are those of that time: keys that were revoked or rotated since are valid again. If you do not have its API key: stint keys rotate admin",
        "Start it with: stint serve"
      ].join("\n")
    })
  })
).pipe(
  Command.withDescription("Restore a platform from a backup into the data folder (STINT_DATA_DIR)"),
  Command.withExamples([
    { command: "STINT_DATA_DIR=/srv/stint stint restore stint.tar", description: "Restore into a new folder" },
    { command: "stint restore stint.tar --check", description: "Test whether an archive is complete and undamaged" }
  ])
)
