/**
 * `stint secrets` sets, lists and deletes secrets, and replaces the key that encrypts them.
 */
import { MAX_SECRET_BYTES, type Secret, SecretName, SHORTEST_MASKED } from "@stint/contract/Secret"
import * as StoppedDatabase from "@stint/store-sqlite/StoppedDatabase"
import { Argument, Command, Flag, Prompt } from "effect/cli"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import { join, resolve } from "node:path"
import { DATABASE } from "../backup/BackupFormat.ts"
import { call, layer as layerClient } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as PlatformConfig from "../config/PlatformConfig.ts"
import * as Output from "../output/Output.ts"
import { json } from "./SharedFlags.ts"

const name = Argument.String("name").pipe(Argument.withDescription("The secret's name, for example hf-token"))

const isName = Schema.is(SecretName)

const usersText = ({ endpoints }: Pick<Secret, "endpoints">): string => endpoints.length === 0 ? "none" : endpoints.join(", ")

const list = Command.make(
  "list",
  { json },
  Effect.fnUntraced(function*({ json }) {
    const { secrets } = yield* call((api) => api.secrets.listSecrets())
    yield* Output.print(json, secrets, (all) =>
      all.length === 0
        ? "No secrets yet. Set one: stint secrets set NAME"
        : Output.table([
          ["SECRET", "CHANGED", "ENDPOINTS"],
          ...all.map((one) => [one.name, new Date(one.updatedAt).toISOString(), usersText(one)])
        ]))
  })
).pipe(Command.withDescription("List the secrets and the endpoints that use them, without their values"), Command.withAlias("ls"))

const readStdin = Effect.gen(function*() {
  const { stdin } = yield* Stdio.Stdio
  return yield* Effect.mapError(
    Stream.mkString(Stream.decodeText(stdin)),
    ({ message }) => new CliFailure({ message: `The standard input cannot be read: ${message}`, hint: "" })
  )
})

/** The value from a file, from the standard input, or typed without echo. One line break at the end is removed. */
const readValue = Effect.fnUntraced(function*(name: string, file: Option.Option<string>) {
  if (Option.isNone(file) && (yield* (yield* Stdio.Stdio).stdinIsTerminal)) {
    return yield* Effect.mapError(
      Prompt.run(Prompt.Hidden({ message: `Value of ${name}` })),
      () =>
        new CliFailure({ message: "No value was given.", hint: `Or: stint secrets set ${name} --value-file FILE`, code: "usage" })
    )
  }
  const text = Option.isNone(file) ? yield* readStdin : yield* Effect.mapError(
    Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(file.value)),
    ({ message }) => new CliFailure({ message: `The value cannot be read from ${file.value}: ${message}`, hint: "" })
  )
  return Redacted.make(text.replace(/\r?\n$/, ""))
})

const set = Command.make(
  "set",
  {
    name,
    valueFile: Flag.String("value-file").pipe(
      Flag.withDescription("A file with the value (default: the standard input)"),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ json, name, valueFile }) {
    if (!isName(name)) {
      return yield* new CliFailure({
        message: `"${name}" is not a valid name for a secret.`,
        hint:
          "Use 1 to 63 letters, digits, - _ or ., starting with a letter or a digit. The value must not be an argument: pipe it to the command.",
        code: "usage"
      })
    }
    const value = yield* readValue(name, valueFile)
    const length = Redacted.value(value).length
    if (length === 0) {
      return yield* new CliFailure({
        message: "The value is empty.",
        hint: `Pipe it to the command (printf %s "$VALUE" | stint secrets set ${name}), or name its file: --value-file FILE`,
        code: "usage"
      })
    }
    if (Buffer.byteLength(Redacted.value(value)) > MAX_SECRET_BYTES) {
      return yield* new CliFailure({
        message: `The value has more than ${MAX_SECRET_BYTES} bytes.`,
        hint: "Store large values in a file that the workers can read."
      })
    }
    const changed = yield* call((api) => api.secrets.setSecret({ params: { secret: name }, payload: { value } }))
    yield* Output.print(json, changed, (one) => {
      const users = one.endpoints.length === 0
        ? `Use it: stint endpoints update ENDPOINT --secret VARIABLE=${one.name}`
        : `Workers of ${one.endpoints.join(", ")} ${one.changed ? "are replaced; running jobs finish first" : "keep running"}.`
      const short = length < SHORTEST_MASKED
        ? `\nIt has fewer than ${SHORTEST_MASKED} characters, so it is not masked in logs and errors.`
        : ""
      return `${
        one.changed ? `Set the secret "${one.name}".` : `The secret "${one.name}" already had this value.`
      } ${users}${short}`
    })
  })
).pipe(
  Command.withDescription("Create a secret or replace its value, which is read from a file or the standard input"),
  Command.withExamples([
    { command: "stint secrets set hf-token", description: "Type the value; it is not shown" },
    { command: "stint secrets set hf-token --value-file ./token.txt", description: "Read the value from a file" },
    { command: "pass show hf | stint secrets set hf-token", description: "Read the value from another program" }
  ])
)

const remove = Command.make(
  "delete",
  {
    name,
    force: Flag.Boolean("force").pipe(
      Flag.withDescription("Delete the secret even if endpoints use it; their workers can then no longer start"),
      Flag.withDefault(false)
    )
  },
  Effect.fnUntraced(function*({ force, name }) {
    yield* call((api) => api.secrets.deleteSecret({ params: { secret: name }, query: force ? { force: "true" } : {} }))
    yield* Output.text(`Deleted the secret "${name}".`)
  })
).pipe(Command.withDescription("Delete a secret"), Command.withAlias("rm"))

const rotateKey = Command.make(
  "rotate-key",
  { json },
  Effect.fnUntraced(function*({ json }) {
    const rotated = yield* call((api) => api.secrets.rotateSecretsKey())
    yield* Output.print(
      json,
      rotated,
      ({ key, place, secrets }) =>
        `${secrets} ${secrets === 1 ? "secret is" : "secrets are"} encrypted with the key ${key} in ${place}. ` +
        "Make a new backup: earlier ones need the previous key."
    )
  })
).pipe(Command.withDescription("Encrypt all secrets with another key; workers keep running"))

const discard = Command.make(
  "discard",
  {
    yes: Flag.Boolean("yes").pipe(Flag.withDescription("Confirm that all secrets are deleted"), Flag.withDefault(false)),
    json
  },
  Effect.fnUntraced(function*({ json, yes }) {
    const file = join(resolve((yield* PlatformConfig.load).dataDir), DATABASE)
    if (!yes) {
      return yield* new CliFailure({
        message: `This deletes all secrets in ${file}, because their key is lost.`,
        hint: "If that is what you want: stint secrets discard --yes",
        code: "usage"
      })
    }
    const secrets = yield* Effect.mapError(
      StoppedDatabase.discardSecrets(file),
      (error) =>
        new CliFailure({
          message: error.message,
          hint: error.reason._tag === "FileLocked" ? "Stop the platform first. While it runs, use: stint secrets delete NAME" : ""
        })
    )
    yield* Output.print(
      json,
      { secrets },
      () => `Deleted ${secrets.length === 0 ? "no secret" : secrets.join(", ")}. Start the platform and set the secrets again.`
    )
  })
).pipe(Command.withDescription("Delete all secrets of a stopped platform whose key is lost"))

/** `stint secrets` and its subcommands. */
export const secrets = Command.make("secrets").pipe(
  Command.withDescription("Secrets: set, list, delete, and replace the key that encrypts them"),
  Command.withSubcommands([
    set.pipe(Command.provide(layerClient)),
    list.pipe(Command.provide(layerClient)),
    remove.pipe(Command.provide(layerClient)),
    rotateKey.pipe(Command.provide(layerClient)),
    discard
  ])
)
