/**
 * The platform's API key. It is `STINT_API_KEY`, or else a key that is generated once and stored in the data folder, readable only by its
 * owner.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import { CliFailure } from "../CliFailure.ts"
import type { PlatformConfig } from "./PlatformConfig.ts"

const fileOf = Effect.fnUntraced(function*(dataDir: string) {
  const path = yield* Path.Path
  return path.join(dataDir, "api-key")
})

const read = Effect.fnUntraced(function*(dataDir: string) {
  const fs = yield* FileSystem.FileSystem
  const file = yield* fileOf(dataDir)
  const text = yield* Effect.option(fs.readFileString(file))
  return Option.filter(Option.map(text, (key) => key.trim()), (key) => key !== "")
})

/** The key for clients on this machine: the variable, or else the stored key. Undefined when neither exists. */
export const find = Effect.fnUntraced(function*(config: PlatformConfig) {
  if (Option.isSome(config.apiKey)) return config.apiKey
  return Option.map(yield* read(config.dataDir), (key) => Redacted.make(key))
})

/** The platform's key. */
export interface AdminKey {
  readonly key: Redacted.Redacted
  /** The origin of the key, as text. */
  readonly origin: string
}

/** Returns the platform's key and its origin. Generates and stores a key when none exists. */
export const obtain = Effect.fn("AdminKey.obtain")(function*(config: PlatformConfig): Effect.fn.Return<
  AdminKey,
  CliFailure,
  FileSystem.FileSystem | Path.Path
> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const file = yield* fileOf(config.dataDir)
  const known = yield* find(config)
  if (Option.isSome(known)) {
    return { key: known.value, origin: Option.isSome(config.apiKey) ? "from STINT_API_KEY" : `kept in ${path.resolve(file)}` }
  }
  const key = `stint_${randomBytes(24).toString("base64url")}`
  yield* fs.makeDirectory(config.dataDir, { recursive: true }).pipe(
    Effect.andThen(fs.writeFileString(file, `${key}\n`, { mode: 0o600, flag: "wx" })),
    Effect.mapError((cause) =>
      new CliFailure({
        message: `The API key cannot be stored in ${file}: ${cause.message}`,
        hint: "Make the data folder writable, set STINT_DATA_DIR to another folder, or set STINT_API_KEY."
      })
    )
  )
  return { key: Redacted.make(key), origin: `new, kept in ${path.resolve(file)}` }
})
