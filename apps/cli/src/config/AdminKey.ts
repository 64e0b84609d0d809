/**
 * The platform's API key. It is `STINT_API_KEY`, or else a key that the first start generates:
 *
 * ```
 *   {operator's configuration folder}/stint/keys/{platform}    the key, for the operator's CLI; mode 0600
 *   {data folder}/admin-key.json                               its SHA-256, for the platform; mode 0600
 * ```
 *
 * The platform therefore holds no key that someone could take from a backup of the data folder, or that a handler could find in its working folder. A
 * lost key cannot be recovered. A user who may write the data folder can replace it: `stint keys rotate admin`. The running platform accepts the new
 * key within a second.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { hash, randomBytes } from "node:crypto"
import { homedir } from "node:os"
import process from "node:process"
import { CliFailure } from "../CliFailure.ts"
import type { PlatformConfig } from "./PlatformConfig.ts"
import * as PrivateFile from "./PrivateFile.ts"

/** The content of `admin-key.json`. A key from the variable is not stored, because an operator may have chosen one that can be guessed. */
const Record = Schema.fromJsonString(Schema.Union([
  Schema.Struct({ sha256: Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/)) }),
  Schema.Struct({ source: Schema.Literal("STINT_API_KEY") })
]))
type Record = typeof Record.Type

const decodeRecord = Schema.decodeEffect(Record)
const encodeRecord = Schema.encodeSync(Record)

const digestOf = (key: Redacted.Redacted): Buffer => hash("sha256", Redacted.value(key), "buffer")

/** Where the operator finds the platform's key. */
export type KeyPlace =
  | { readonly _tag: "Environment" }
  /** `key`: only when it has just been generated. */
  | { readonly _tag: "File"; readonly file: string; readonly key: Redacted.Redacted | undefined }
  /** The file that should contain the key does not exist, or contains another key. */
  | { readonly _tag: "Lost"; readonly file: string }

/** The platform's key, as the platform knows it. */
export interface AdminKey {
  readonly place: KeyPlace
  /** The key's SHA-256. Returns the same buffer until the key is rotated. */
  readonly digest: () => Buffer
  /** Accepts a rotated key while the platform runs. */
  readonly watch: Effect.Effect<void>
}

const recordFile = Effect.fnUntraced(function*(dataDir: string) {
  return (yield* Path.Path).join(dataDir, "admin-key.json")
})

/** The operator's configuration folder: `%APPDATA%`, or else `$XDG_CONFIG_HOME`, or else `~/.config`. */
const configurationFolder = Effect.gen(function*() {
  const path = yield* Path.Path
  const isWindows = process.platform === "win32"
  const configured = yield* Effect.orElseSucceed(
    Config.option(Config.NonEmptyString(isWindows ? "APPDATA" : "XDG_CONFIG_HOME")),
    () => Option.none<string>()
  )
  // The XDG specification requires that relative paths are ignored.
  const absolute = Option.filter(configured, (folder) => path.isAbsolute(folder))
  return Option.getOrElse(
    absolute,
    () => isWindows ? path.join(homedir(), "AppData", "Roaming") : path.join(homedir(), ".config")
  )
})

/** The file with the operator's copy of the key. Its name is derived from the data folder, because one operator may have several platforms. */
const credentialFile = Effect.fn("AdminKey.credentialFile")(function*(dataDir: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const absolute = path.resolve(dataDir)
  const real = yield* Effect.orElseSucceed(fs.realPath(absolute), () => absolute)
  const named = path.basename(real) === ".stint" ? path.dirname(real) : real
  const name = path.basename(named).replaceAll(/[^A-Za-z0-9_.-]+/g, "-").slice(0, 40)
  return path.join(yield* configurationFolder, "stint", "keys", `${name}-${hash("sha256", real, "hex").slice(0, 8)}`)
})

const readText = (file: string) =>
  PrivateFile.read(file).pipe(
    Effect.mapError((cause) =>
      new CliFailure({
        message: `The file ${file} cannot be read: ${cause.message}`,
        hint: "Let this user read it, or run this command as the file's owner."
      })
    )
  )

/** The key for clients on this machine: the variable, or else the operator's copy. */
export const find = Effect.fnUntraced(function*(config: PlatformConfig) {
  if (Option.isSome(config.apiKey)) return config.apiKey
  return Option.map(yield* readText(yield* credentialFile(config.dataDir)), (key) => Redacted.make(key))
})

const readRecord = Effect.fnUntraced(function*(file: string): Effect.fn.Return<Option.Option<Record>, CliFailure> {
  const text = yield* readText(file)
  if (Option.isNone(text)) return Option.none()
  return Option.some(
    yield* Effect.mapError(decodeRecord(text.value), () =>
      new CliFailure({
        message: `The file ${file} is damaged: it must contain the digest of the platform's API key.`,
        hint: "Delete it and start the platform again, which generates a new key, or set STINT_API_KEY."
      }))
  )
})

const writeRecord = (file: string, record: Record) =>
  PrivateFile.write(file, `${encodeRecord(record)}\n`).pipe(
    Effect.mapError((cause) =>
      new CliFailure({
        message: `The digest of the API key cannot be stored in ${file}: ${cause.message}`,
        hint: "Make the data folder writable for this user, or set STINT_DATA_DIR to another folder."
      })
    )
  )

/** Stores a key: first the operator's copy, so that an interruption never leaves a platform whose key is unknown. */
const store = Effect.fnUntraced(function*(dataDir: string, key: Redacted.Redacted) {
  const file = yield* credentialFile(dataDir)
  yield* PrivateFile.write(file, `${Redacted.value(key)}\n`).pipe(
    Effect.mapError((cause) =>
      new CliFailure({
        message: `The API key cannot be stored in ${file}: ${cause.message}`,
        hint: "Set XDG_CONFIG_HOME to a folder that this user can write, or give the platform a key: STINT_API_KEY."
      })
    )
  )
  yield* writeRecord(yield* recordFile(dataDir), { sha256: digestOf(key).toString("hex") })
  return file
})

const generate = Effect.sync(() => Redacted.make(`stint_${randomBytes(24).toString("base64url")}`))

const placeOf = Effect.fnUntraced(function*(dataDir: string, sha256: string): Effect.fn.Return<
  KeyPlace,
  CliFailure,
  FileSystem.FileSystem | Path.Path
> {
  const file = yield* credentialFile(dataDir)
  const copy = yield* readText(file)
  const isSame = Option.isSome(copy) && digestOf(Redacted.make(copy.value)).toString("hex") === sha256
  return isSame ? { _tag: "File", file, key: undefined } : { _tag: "Lost", file }
})

/** How often a running platform checks whether its key was rotated. */
const WATCH = Schedule.spaced("1 second")

/** Determines the platform's key. Generates and stores a key when there is none. */
export const obtain = Effect.fn("AdminKey.obtain")(function*(config: PlatformConfig, dataDir: string): Effect.fn.Return<
  AdminKey,
  CliFailure,
  FileSystem.FileSystem | Path.Path
> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const file = yield* recordFile(dataDir)
  const known = yield* readRecord(file)
  /** Earlier versions stored the key itself in the data folder. */
  const earlier = path.join(dataDir, "api-key")

  if (Option.isSome(config.apiKey)) {
    const digest = digestOf(config.apiKey.value)
    if (Option.isNone(known) || !("source" in known.value)) yield* writeRecord(file, { source: "STINT_API_KEY" })
    yield* Effect.ignore(fs.remove(earlier, { force: true }))
    return { place: { _tag: "Environment" }, digest: () => digest, watch: Effect.void }
  }

  let sha256: string
  let place: KeyPlace
  if (Option.isSome(known) && "sha256" in known.value) {
    sha256 = known.value.sha256
    place = yield* placeOf(dataDir, sha256)
  } else {
    const moved = Option.map(yield* readText(earlier), (text) => Redacted.make(text))
    const key = Option.isSome(moved) ? moved.value : yield* generate
    sha256 = digestOf(key).toString("hex")
    place = { _tag: "File", file: yield* store(dataDir, key), key: Option.isSome(moved) ? undefined : key }
  }
  yield* Effect.ignore(fs.remove(earlier, { force: true }))

  let digest = Buffer.from(sha256, "hex")
  const check = Effect.gen(function*() {
    const record = yield* readRecord(file)
    if (Option.isNone(record) || !("sha256" in record.value) || record.value.sha256 === digest.toString("hex")) return
    digest = Buffer.from(record.value.sha256, "hex")
    yield* Effect.logInfo("The platform's API key was rotated. The previous one no longer works.")
  }).pipe(
    // A file that cannot be read now is read again at the next check; until then the known key stays valid.
    Effect.ignore
  )
  return { place, digest: () => digest, watch: Effect.asVoid(Effect.repeat(check, WATCH)) }
})

/** Keeps the platform's key up to date while the layer is open. */
export const layerWatch = ({ watch }: AdminKey): Layer.Layer<never> => Layer.effectDiscard(Effect.forkScoped(watch))

/** Replaces the key of the platform that uses this data folder. Works without the current key. Returns the file of the operator's copy. */
export const rotate = Effect.fn("AdminKey.rotate")(function*(config: PlatformConfig): Effect.fn.Return<
  { readonly file: string; readonly key: Redacted.Redacted },
  CliFailure,
  FileSystem.FileSystem | Path.Path
> {
  const dataDir = (yield* Path.Path).resolve(config.dataDir)
  const known = yield* readRecord(yield* recordFile(dataDir))
  if (Option.isNone(known)) {
    return yield* new CliFailure({
      message: `There is no platform in ${dataDir}.`,
      hint:
        "Run this command where the platform was started, with the right to write its data folder, or set STINT_DATA_DIR to that folder."
    })
  }
  if ("source" in known.value) {
    return yield* new CliFailure({
      message: `The platform in ${dataDir} gets its API key from STINT_API_KEY.`,
      hint: "Start it with another value of STINT_API_KEY."
    })
  }
  const key = yield* generate
  return { file: yield* store(dataDir, key), key }
})
