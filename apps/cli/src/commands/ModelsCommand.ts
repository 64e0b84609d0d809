/**
 * `stint models` lists, downloads and removes models in the cache of the platform's machine (docs/operations/models.md).
 */
import { type CachedModel, type ModelCache, type ModelDownload, ModelId, modelParts } from "@stint/contract/Model"
import { SecretName } from "@stint/contract/Secret"
import { bytesText } from "@stint/models/ProgressText"
import { Argument, Command, Flag } from "effect/cli"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { json } from "./SharedFlags.ts"

/** How often a download is read while the command waits for it. */
const INTERVAL = "500 millis"

/** How many seconds the platform may be down while a download is followed. */
const OUTAGE_SECONDS = 30

const progressOf = ({ receivedBytes, totalBytes }: ModelDownload): string =>
  totalBytes === undefined
    ? "requesting the list of files from the hub"
    : `${bytesText(receivedBytes)} of ${bytesText(totalBytes)}`

const timeText = (millis: number): string => new Date(millis).toISOString().slice(0, 19).replace("T", " ")

const rowOf = (one: CachedModel): ReadonlyArray<string> => [
  one.model,
  one.revisions.length === 0 ? "-" : one.revisions.join(", "),
  one.commit.slice(0, 12),
  String(one.files),
  bytesText(one.bytes),
  timeText(one.lastUsedAt),
  String(one.workers),
  one.endpoints.length === 0 ? "none" : one.endpoints.join(", ")
]

const downloadText = (one: ModelDownload): string =>
  one.state === "downloading"
    ? `Downloading ${one.model}: ${progressOf(one)}.`
    : one.reason ?? `${one.model} cannot be downloaded.`

const listText = ({ bytes, downloads, folder, hub, limitBytes, models }: ModelCache): string =>
  [
    models.length === 0
      ? "No models yet. Download one: stint models pull OWNER/NAME"
      : Output.table([
        ["MODEL", "REVISION", "COMMIT", "FILES", "SIZE", "LAST USED (UTC)", "WORKERS", "ENDPOINTS"],
        ...models.map(rowOf)
      ]),
    ...downloads.map(downloadText).map(Output.inline),
    `${bytesText(bytes)}${limitBytes === undefined ? "" : ` of at most ${bytesText(limitBytes)}`} in ${
      Output.inline(folder)
    }, from ${Output.inline(hub)}`
  ].join("\n")

const list = Command.make(
  "list",
  { json },
  Effect.fnUntraced(function*({ json }) {
    yield* Output.print(json, yield* call((api) => api.models.listModels()), listText)
  })
).pipe(Command.withDescription("List the models in the cache, and the downloads"), Command.withAlias("ls"))

const isSecretName = Schema.is(SecretName)

const tokenOf = (token: Option.Option<string>) => {
  if (Option.isNone(token)) return Effect.succeed({})
  return isSecretName(token.value) ? Effect.succeed({ token: token.value }) : Effect.fail(
    new CliFailure({
      message: "The value of --token is not the name of a secret.",
      hint:
        "Store the token with `stint secrets set hf-token`, and pass its name: --token hf-token. Never pass the token itself as an argument.",
      code: "usage"
    })
  )
}

/** The download in progress, otherwise the last failure; undefined when the model is in the cache. */
const downloadOf = ({ downloads }: ModelCache, model: string): ModelDownload | undefined => {
  const all = downloads.filter((one) => one.model === model)
  return all.find(({ state }) => state === "downloading") ??
    all.toSorted((one, other) => (other.retryAt ?? 0) - (one.retryAt ?? 0))[0]
}

/** Shows the progress of a download until it has ended. Returns the cached models with the downloaded commit. */
const follow = Effect.fnUntraced(function*(model: string) {
  const progress = Output.makeProgress()
  const since = yield* Clock.currentTimeMillis
  const read = Effect.retry(call((api) => api.models.listModels()), {
    schedule: Schedule.spaced("1 second"),
    times: OUTAGE_SECONDS,
    while: ({ code }) => code === "unreachable"
  })
  const cache = yield* read.pipe(
    Effect.tap((cache) => {
      const one = downloadOf(cache, model)
      if (one?.state !== "downloading") return Effect.void
      return Effect.flatMap(
        Clock.currentTimeMillis,
        (now) => progress.show(`Downloading ${model}: ${progressOf(one)}`, now - since)
      )
    }),
    Effect.repeat({ while: (cache) => downloadOf(cache, model)?.state === "downloading", schedule: Schedule.spaced(INTERVAL) }),
    Effect.ensuring(progress.clear),
    Effect.onInterrupt(() => Output.message("Stopped watching. The download continues: stint models list"))
  )
  const { id, revision } = modelParts(model)
  const found = cache.models.filter(({ commit, model, revisions }) =>
    model === id && (commit === revision || revisions.includes(revision))
  )
  const failed = downloadOf(cache, model)
  if (failed === undefined && found.length > 0) return found
  return yield* new CliFailure({
    message: failed?.reason ?? `The model ${model} is not in the cache: it was removed, or the platform was restarted.`,
    hint: `After that: stint models pull ${model}`,
    code: "download-failed"
  })
})

const pull = Command.make(
  "pull",
  {
    model: Argument.String("model").pipe(
      Argument.withDescription("The model: OWNER/NAME, or with a branch, a tag or a commit: OWNER/NAME@REVISION")
    ),
    token: Flag.String("token").pipe(
      Flag.withDescription("The secret that contains the hub's token (see stint secrets)"),
      Flag.optional
    ),
    detach: Flag.Boolean("detach").pipe(Flag.withDescription("Start the download and do not wait"), Flag.withDefault(false)),
    json
  },
  Effect.fnUntraced(function*({ detach, json, model, token }) {
    const payload = { model, ...(yield* tokenOf(token)) }
    const started = yield* call((api) => api.models.pullModel({ payload }))
    if (detach) {
      return yield* Output.print(
        json,
        started,
        () => `The platform downloads ${model}. To see the progress: stint models list`
      )
    }
    yield* Output.print(
      json,
      yield* follow(model),
      (found) =>
        found.map(({ bytes, commit }) => `${model} is in the cache: commit ${commit.slice(0, 12)}, ${bytesText(bytes)}`).join(
          "\n"
        )
    )
  })
).pipe(
  Command.withDescription("Download a model before the first job needs it, or update it to its branch's new commit"),
  Command.withExamples([
    { command: "stint models pull openai/whisper-large-v3", description: "Download, and show the progress" },
    { command: "stint models pull acme/private@v2 --token hf-token", description: "A tag, with the hub's token in a secret" }
  ])
)

const isId: (text: string) => boolean = Schema.is(ModelId)

const remove = Command.make(
  "remove",
  { model: Argument.String("model").pipe(Argument.withDescription("The model: OWNER/NAME")), json },
  Effect.fnUntraced(function*({ json, model }) {
    if (!isId(model)) {
      return yield* new CliFailure({
        message: `"${model}" is not a model's id.`,
        hint: "Pass it without a revision, for example: stint models remove openai/whisper-large-v3",
        code: "usage"
      })
    }
    const [owner = "", name = ""] = model.split("/")
    const removed = yield* call((api) => api.models.removeModel({ params: { owner, name } }))
    yield* Output.print(json, removed, ({ freedBytes }) => `Removed ${model}: ${bytesText(freedBytes)} are free again.`)
  })
).pipe(Command.withDescription("Remove a model that no worker uses from the cache"), Command.withAlias("rm"))

/** `stint models` and its subcommands. */
export const models = Command.make("models").pipe(
  Command.withDescription("Models in the cache of the platform's machine: list, download and remove"),
  Command.withSubcommands([list, pull, remove])
)
