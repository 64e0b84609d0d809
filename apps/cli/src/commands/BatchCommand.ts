/**
 * `stint batch`: submits a file of requests as one batch, shows its status, and prints its results, one per line.
 */
import { type Batch, BatchRequest, type BatchResult } from "@stint/contract/Batch"
import { BATCH_PAGE_LIMIT } from "@stint/contract/BatchApi"
import { fieldIssues, formatFieldIssue } from "@stint/contract/SchemaIssues"
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { endpoint, json } from "./SharedFlags.ts"
import { batchPolicy, policyFlags } from "./SubmitFlags.ts"

const batchId = Argument.String("batch").pipe(Argument.withDescription("Id of the batch"))

const requestsFile = Argument.String("file").pipe(Argument.withDescription("A file with one JSON run request per line"))

const limit = Flag.Int("limit").pipe(Flag.withDescription("Number of entries, 1 to 200; default 50"), Flag.optional)

const offset = Flag.Int("offset").pipe(Flag.withDescription("Number of entries to skip"), Flag.optional)

const pageOf = (flags: { readonly limit: Option.Option<number>; readonly offset: Option.Option<number> }) => ({
  ...(Option.isSome(flags.limit) ? { limit: flags.limit.value } : {}),
  ...(Option.isSome(flags.offset) ? { offset: flags.offset.value } : {})
})

/** The limits of one call, in characters (well below the platform's 10 MiB) and in requests. */
const CALL_CHARACTERS = 2 * 1024 * 1024
const CALL_REQUESTS = 1_000

const decodeRequest = Schema.decodeUnknownEffect(Schema.fromJsonString(BatchRequest), { errors: "all" })

type Request = (typeof BatchRequest)["Type"]

/** The requests of a file, split into calls. All lines are read before the first call, so that nothing is sent when a line is invalid. */
const readCalls = Effect.fnUntraced(function*(file: string) {
  const fs = yield* FileSystem.FileSystem
  const text = yield* fs.readFileString(file).pipe(
    Effect.mapError((cause) => new CliFailure({ message: `The requests cannot be read: ${cause.message}`, hint: "" }))
  )
  const calls: Array<Array<Request>> = []
  let characters = Infinity
  for (const [at, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue
    const request = yield* decodeRequest(line).pipe(
      Effect.mapError((error) =>
        new CliFailure({
          message: `Line ${at + 1} of ${file} is not a request. ${fieldIssues(error).map(formatFieldIssue).join("; ")}`,
          hint: "Each line must be a run request as JSON: {\"input\": {\"name\": \"Ada\"}}. Nothing was sent."
        })
      )
    )
    const last = calls.at(-1)
    if (last === undefined || last.length === CALL_REQUESTS || characters + line.length > CALL_CHARACTERS) {
      calls.push([request])
      characters = line.length
    } else {
      last.push(request)
      characters += line.length
    }
  }
  return calls
})

const time = (millis: number | undefined): string =>
  millis === undefined ? "-" : new Date(millis).toISOString().slice(0, 19).replace("T", " ")

/** Formats a batch as text. */
const text = (batch: Batch): string =>
  Output.table([
    ["batch", batch.id],
    ...(batch.name === undefined ? [] : [["name", batch.name]]),
    ["status", batch.status],
    ["requests", String(batch.requestTotal)],
    ["running", String(batch.requestInProgress)],
    ["completed", String(batch.requestCompleted)],
    ["failed", `${batch.requestFailed}${batch.requestCancelled === 0 ? "" : `, ${batch.requestCancelled} of them cancelled`}`],
    ["created", time(batch.createdAt)],
    ["started", time(batch.finalizedAt)],
    ["ended", time(batch.completedAt)]
  ])

const addAll = (params: { readonly endpoint: string; readonly id: string }, calls: ReadonlyArray<ReadonlyArray<Request>>) =>
  Effect.forEach(calls, (requests) => call((api) => api.batches.addRequests({ params, payload: { requests } })), {
    discard: true
  })

const create = Command.make(
  "create",
  {
    endpoint,
    file: requestsFile,
    name: Flag.String("name").pipe(Flag.withDescription("Name of the batch"), Flag.optional),
    webhook: Flag.String("webhook").pipe(Flag.withDescription("URL that receives a webhook when the batch ends"), Flag.optional),
    ...policyFlags,
    draft: Flag.Boolean("draft").pipe(Flag.withDescription("Do not start it"), Flag.withDefault(false)),
    json
  },
  Effect.fnUntraced(function*({ draft, endpoint, file, json, name, webhook, ...flags }) {
    const policy = yield* batchPolicy(flags)
    const calls = yield* readCalls(file)
    const { id } = yield* call((api) =>
      api.batches.createBatch({
        params: { endpoint },
        payload: {
          ...policy,
          ...(Option.isSome(name) ? { name: name.value } : {}),
          ...(Option.isSome(webhook) ? { webhook: webhook.value } : {})
        }
      })
    )
    yield* addAll({ endpoint, id }, calls).pipe(
      // A batch with only some of its requests is useless, so it is cancelled.
      Effect.tapError(() => Effect.ignore(call((api) => api.batches.cancelBatch({ params: { endpoint, id } }))))
    )
    const params = { endpoint, id }
    const batch = yield* call((api) => draft ? api.batches.getBatch({ params }) : api.batches.finalizeBatch({ params }))
    yield* Output.print(
      json,
      batch,
      (batch) => `${text(batch)}\n\nFollow it with: stint batch status ${endpoint} ${Output.inline(id)}`
    )
  })
).pipe(Command.withDescription("Create a batch from a file of requests and start it"))

const status = Command.make(
  "status",
  { endpoint, batch: batchId, json },
  Effect.fnUntraced(function*({ batch, endpoint, json }) {
    yield* Output.print(json, yield* call((api) => api.batches.getBatch({ params: { endpoint, id: batch } })), text)
  })
).pipe(Command.withDescription("Show a batch and the number of its requests by status; times are UTC"))

const list = Command.make(
  "list",
  { endpoint, limit, offset, json },
  Effect.fnUntraced(function*({ endpoint, json, limit, offset }) {
    const batches = yield* call((api) => api.batches.listBatches({ params: { endpoint }, query: pageOf({ limit, offset }) }))
    yield* Output.print(json, batches, (batches) =>
      batches.length === 0
        ? "No batches."
        : Output.table([
          ["BATCH", "STATUS", "REQUESTS", "COMPLETED", "FAILED", "CREATED", "NAME"],
          ...batches.map((batch) => [
            batch.id,
            batch.status,
            String(batch.requestTotal),
            String(batch.requestCompleted),
            String(batch.requestFailed),
            time(batch.createdAt),
            batch.name ?? ""
          ])
        ]))
  })
).pipe(Command.withDescription("List an endpoint's batches, newest first; times are UTC"), Command.withAlias("ls"))

const results = Command.make(
  "results",
  {
    endpoint,
    batch: batchId,
    offset,
    limit: Flag.Int("limit").pipe(Flag.withDescription("Print at most this number of requests; default: all"), Flag.optional)
  },
  Effect.fnUntraced(function*({ batch, endpoint, ...page }) {
    let offset = Option.getOrElse(page.offset, () => 0)
    let left = Option.getOrElse(page.limit, () => Infinity)
    let more = true
    while (more && left > 0) {
      const page = yield* call((api) =>
        api.batches.batchRequests({ params: { endpoint, id: batch }, query: { offset, limit: Math.min(left, BATCH_PAGE_LIMIT) } })
      )
      yield* Effect.forEach(page.requests, (one: BatchResult) => Output.jsonLine(one), { discard: true })
      offset += page.requests.length
      left -= page.requests.length
      more = page.hasMore
    }
  })
).pipe(
  Command.withDescription("Print the requests of a batch with their results, one JSON object per line, in the order of the file")
)

const cancel = Command.make(
  "cancel",
  { endpoint, batch: batchId, json },
  Effect.fnUntraced(function*({ batch, endpoint, json }) {
    yield* Output.print(json, yield* call((api) => api.batches.cancelBatch({ params: { endpoint, id: batch } })), text)
  })
).pipe(Command.withDescription("Cancel the waiting requests of a batch; running ones may finish"))

const add = Command.make(
  "add",
  { endpoint, batch: batchId, file: requestsFile, json },
  Effect.fnUntraced(function*({ batch, endpoint, file, json }) {
    const params = { endpoint, id: batch }
    yield* addAll(params, yield* readCalls(file))
    yield* Output.print(json, yield* call((api) => api.batches.getBatch({ params })), text)
  })
).pipe(Command.withDescription("Add the requests of a file to a draft"))

const remove = Command.make(
  "remove",
  {
    endpoint,
    batch: batchId,
    request: Argument.String("request").pipe(Argument.withDescription("Id of the request, as `stint batch results` shows it")),
    json
  },
  Effect.fnUntraced(function*({ batch, endpoint, json, request }) {
    const params = { endpoint, id: batch, request }
    yield* Output.print(json, yield* call((api) => api.batches.dropRequest({ params })), text)
  })
).pipe(Command.withDescription("Remove a request from a draft"))

const start = Command.make(
  "start",
  { endpoint, batch: batchId, json },
  Effect.fnUntraced(function*({ batch, endpoint, json }) {
    const params = { endpoint, id: batch }
    yield* Output.print(json, yield* call((api) => api.batches.finalizeBatch({ params })), text)
  })
).pipe(Command.withDescription("Start a draft: its requests become jobs"))

const update = Command.make(
  "update",
  {
    endpoint,
    batch: batchId,
    name: Flag.String("name").pipe(Flag.withDescription("New name of the batch"), Flag.optional),
    noName: Flag.Boolean("no-name").pipe(Flag.withDescription("Remove the name"), Flag.withDefault(false)),
    webhook: Flag.String("webhook").pipe(
      Flag.withDescription("URL that receives a webhook when the batch ends"),
      Flag.optional
    ),
    noWebhook: Flag.Boolean("no-webhook").pipe(Flag.withDescription("Remove the webhook"), Flag.withDefault(false)),
    json
  },
  Effect.fnUntraced(function*({ batch, endpoint, json, name, noName, noWebhook, webhook }) {
    const payload = {
      ...(noName ? { name: null } : Option.isSome(name) ? { name: name.value } : {}),
      ...(noWebhook ? { webhook: null } : Option.isSome(webhook) ? { webhook: webhook.value } : {})
    }
    if (Object.keys(payload).length === 0) {
      return yield* new CliFailure({
        message: "No change was given.",
        hint: "Give at least one of --name, --no-name, --webhook, --no-webhook.",
        code: "usage"
      })
    }
    const params = { endpoint, id: batch }
    yield* Output.print(json, yield* call((api) => api.batches.changeBatch({ params, payload })), text)
  })
).pipe(Command.withDescription("Change the name or the webhook of a batch"))

/** `stint batch`. */
export const batch = Command.make("batch").pipe(
  Command.withDescription("Submit many requests as one batch and read their results"),
  Command.withSubcommands([create, add, remove, start, status, list, results, update, cancel]),
  Command.withExamples([
    { command: "stint batch create hello requests.jsonl --name nightly", description: "Run every request of a file" },
    { command: "stint batch results hello batch_... > results.jsonl", description: "Keep the results" }
  ])
)
