/**
 * The key that encrypts the platform's secrets (docs/operations/secrets.md).
 *
 * | variable | the key | who replaces it |
 * |---|---|---|
 * | none | generated with the first secret, in `secrets-key` in the data folder | `stint secrets rotate-key` |
 * | `STINT_SECRETS_KEY_FILE` | in a file that the operator provides | the operator: the new key before the old one, then `stint secrets rotate-key` |
 * | `STINT_SECRETS_KEY` | in the variable | the operator: the same, with a restart, because a process reads its variables once |
 */
import { format, parse, SecretsKey, SecretsKeyError, SHAPE } from "@stint/secrets/SecretsKey"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { join, resolve } from "node:path"
import { CliFailure } from "../CliFailure.ts"
import * as PrivateFile from "./PrivateFile.ts"
import { secretSetting, setting } from "./Setting.ts"

/** The file in the data folder with the generated key. It is not part of backups. */
const FILE = "secrets-key"

/** The location of the operator's key; both None for the generated key. */
export interface SecretsKeySettings {
  readonly file: Option.Option<string>
  readonly value: Option.Option<Redacted.Redacted>
}

/** Reads both settings. */
export const load: Effect.Effect<SecretsKeySettings, CliFailure> = Effect.gen(function*() {
  const file = yield* setting(
    "STINT_SECRETS_KEY_FILE",
    "the path of a file",
    Config.option(Config.NonEmptyString("STINT_SECRETS_KEY_FILE"))
  )
  const value = yield* secretSetting("STINT_SECRETS_KEY", SHAPE, Config.option(Config.Redacted("STINT_SECRETS_KEY")))
  if (Option.isSome(file) && Option.isSome(value)) {
    return yield* new CliFailure({
      message: "Both STINT_SECRETS_KEY_FILE and STINT_SECRETS_KEY are set.",
      hint: "Unset one of them."
    })
  }
  return { file, value }
})

const failed = (message: string, hint: string) => new SecretsKeyError({ message, hint })

/** The keys in a text. Fails if there is none, or if one is invalid. */
const keysIn = (text: string, place: string) => {
  const keys = parse(text)
  return keys === undefined || keys.length === 0
    ? Effect.fail(failed(`There is no key for secrets in ${place}.`, `It must be ${SHAPE}.`))
    : Effect.succeed(keys)
}

/** The key that the platform generates, in the data folder. */
export const generated = (dataDir: string): SecretsKey["Service"] => {
  const file = join(dataDir, FILE)
  const place = `the file ${file}`
  const unusable = ({ message }: PrivateFile.PrivateFileError) =>
    failed(
      `The key of the secrets cannot be read or stored in ${file}: ${message}`,
      "Let the platform's user read and write the file."
    )
  return SecretsKey.of({
    place,
    read: Effect.flatMap(
      Effect.mapError(PrivateFile.read(file), unusable),
      Option.match({ onNone: () => Effect.succeed([]), onSome: (text) => keysIn(text, place) })
    ),
    write: (keys) => Effect.mapError(PrivateFile.write(file, format(keys)), unusable)
  })
}

/** The key that the settings specify. Fails when the operator's key cannot be read. */
export const resolveFor = Effect.fnUntraced(function*(
  { file, value }: SecretsKeySettings,
  dataDir: string
): Effect.fn.Return<SecretsKey["Service"], CliFailure> {
  if (Option.isNone(file) && Option.isNone(value)) return generated(dataDir)
  const path = Option.getOrUndefined(Option.map(file, (path) => resolve(path)))
  const place = path === undefined ? "the variable STINT_SECRETS_KEY" : `the file ${path}`
  const read = path === undefined
    ? keysIn(Option.match(value, { onNone: () => "", onSome: Redacted.value }), place)
    : PrivateFile.read(path).pipe(
      Effect.mapError(({ message }) =>
        failed(
          `The key of the secrets cannot be read: ${message}`,
          "Correct STINT_SECRETS_KEY_FILE, or let the platform's user read the file."
        )
      ),
      Effect.flatMap(Option.match({
        onNone: () =>
          Effect.fail(
            failed(
              `${path} does not exist or is empty.`,
              `Put the key into the file, or correct STINT_SECRETS_KEY_FILE. It must be ${SHAPE}.`
            )
          ),
        onSome: (text) => keysIn(text, place)
      }))
    )
  // A wrong setting is reported at startup, not when the first secret is used.
  yield* Effect.mapError(read, ({ hint, message }) => new CliFailure({ message, hint }))
  return SecretsKey.of({ place, read, write: undefined })
})
