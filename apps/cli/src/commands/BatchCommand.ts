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

const batchId = Argument.String("batch").pipe(Argument.withDescription("Id of the batch"))

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

const create = Command.make(
  "create",
  {
    endpoint,
    file: Argument.String("file").pipe(Argument.withDescription("A file with one JSON run request per line")),
    name: Flag.String("name").pipe(Flag.withDescription("Name of the batch"), Flag.optional),
    webhook: Flag.String("webhook").pipe(Flag.withDescription("URL that receives a webhook when the batch ends"), Flag.optional),
    draft: Flag.Boolean("draft").pipe(Flag.withDescription("Do not start it"), Flag.withDefault(false)),
    json
  },
  Effect.fnUntraced(function*({ draft, endpoint, file, json, name, webhook }) {
    const calls = yield* readCalls(file)
    const { id } = yield* call((api) =>
      api.batches.createBatch({
        params: { endpoint },
        payload: {
          ...(Option.isSome(name) ? { name: name.value } : {}),
          ...(Option.isSome(webhook) ? { webhook: webhook.value } : {})
        }
      })
    )
    for (const requests of calls) {
      yield* call((api) => api.batches.addRequests({ params: { endpoint, id }, payload: { requests } })).pipe(
        // A batch with only some of its requests is useless, so it is cancelled.
        Effect.tapError(() => Effect.ignore(call((api) => api.batches.cancelBatch({ params: { endpoint, id } }))))
      )
    }
    const params = { endpoint, id }
    const batch = yield* call((api) => draft ? api.batches.getBatch({ params }) : api.batches.finalizeBatch({ params }))
    yield* Output.print(json, batch, (batch) => `${text(batch)}\n\nFollow it with: stint batch status ${endpoint} ${id}`)
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
  { endpoint, json },
  Effect.fnUntraced(function*({ endpoint, json }) {
    const batches = yield* call((api) => api.batches.listBatches({ params: { endpoint }, query: {} }))
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
).pipe(Command.withDescription("List an endpoint's last 50 batches, newest first; times are UTC"), Command.withAlias("ls"))

const results = Command.make(
  "results",
  { endpoint, batch: batchId },
  Effect.fnUntraced(function*({ batch, endpoint }) {
    let offset = 0
    let more = true
    while (more) {
      const page = yield* call((api) =>
        api.batches.batchRequests({ params: { endpoint, id: batch }, query: { offset, limit: BATCH_PAGE_LIMIT } })
      )
      yield* Effect.forEach(page.requests, (one: BatchResult) => Output.jsonLine(one), { discard: true })
      offset += page.requests.length
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

/** `stint batch`. */
export const batch = Command.make("batch").pipe(
  Command.withDescription("Submit many requests as one batch and read their results"),
  Command.withSubcommands([create, status, list, results, cancel]),
  Command.withExamples([
    { command: "stint batch create hello requests.jsonl --name nightly", description: "Run every request of a file" },
    { command: "stint batch results hello batch_... > results.jsonl", description: "Keep the results" }
  ])
)
