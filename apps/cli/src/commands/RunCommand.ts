/**
 * `stint run` submits a job. With --sync, it waits for the result. With --stream, it prints the chunks.
 */
import { isTerminal, type Job } from "@stint/contract/Job"
import { Command, Flag } from "effect/cli"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { endpoint, json } from "./SharedFlags.ts"

const decodeJson = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Json))

/** How long the server holds one call before the progress line is redrawn. Milliseconds. */
const POLL_MILLIS = "2000"

const readInput = Effect.fnUntraced(function*(input: Option.Option<string>, file: Option.Option<string>) {
  if (Option.isSome(input) === Option.isSome(file)) {
    return yield* new CliFailure({
      message: Option.isSome(input) ? "Give --input or --input-file, not both." : "The job needs an input.",
      hint: "For example: --input '{\"name\": \"Ada\"}', or --input-file FILE."
    })
  }
  const fs = yield* FileSystem.FileSystem
  const text = Option.isSome(input) ? input.value : yield* fs.readFileString(Option.getOrElse(file, () => "")).pipe(
    Effect.mapError((cause) => new CliFailure({ message: `The input cannot be read: ${cause.message}`, hint: "" }))
  )
  return yield* decodeJson(text).pipe(
    Effect.mapError(() =>
      new CliFailure({
        message: `The input is not JSON: ${text.slice(0, 80)}`,
        hint: "Put it in single quotes for the shell, with every string and key in double quotes: --input '{\"name\": \"Ada\"}'."
      })
    )
  )
})

/** Draws the progress line: status, elapsed seconds and latest progress. */
const drawProgress = Effect.fnUntraced(function*(job: Job, since: number) {
  const elapsed = Math.round(((yield* Clock.currentTimeMillis) - since) / 1000)
  const progress = job.status === "IN_PROGRESS" && job.output !== undefined ? ` ${JSON.stringify(job.output).slice(0, 80)}` : ""
  yield* Output.progress(`${job.status} ${elapsed} s${progress}`)
})

/** Waits until a job has ended. */
const awaitEnd = Effect.fnUntraced(function*(endpoint: string, first: Job) {
  const since = yield* Clock.currentTimeMillis
  let job = first
  while (!isTerminal(job.status)) {
    yield* drawProgress(job, since)
    job = yield* call((api) => api.jobs.statusSync({ params: { endpoint, id: job.id }, query: { wait: POLL_MILLIS } }))
  }
  yield* Output.clearProgress
  return job
})

/** Fails unless the job is COMPLETED, so that the exit code is 1. */
const requireCompleted = (job: Job): Effect.Effect<void, CliFailure> =>
  job.status === "COMPLETED"
    ? Effect.void
    : Effect.fail(new CliFailure({ message: `The job ended as ${job.status}.`, hint: job.error ?? "" }))

export const command = Command.make(
  "run",
  {
    endpoint,
    input: Flag.String("input").pipe(Flag.withDescription("The job's input, as JSON"), Flag.optional),
    inputFile: Flag.String("input-file").pipe(Flag.withDescription("A file with the job's input, as JSON"), Flag.optional),
    sync: Flag.Boolean("sync").pipe(Flag.withDescription("Wait for the result"), Flag.withDefault(false)),
    stream: Flag.Boolean("stream").pipe(Flag.withDescription("Print each chunk as it arrives"), Flag.withDefault(false)),
    json
  },
  Effect.fnUntraced(function*({ endpoint, input, inputFile, json, stream, sync }) {
    const value = yield* readInput(input, inputFile)
    const receipt = yield* call((api) => api.jobs.run({ params: { endpoint }, payload: { input: value } }))
    if (stream) {
      const since = yield* Clock.currentTimeMillis
      let ended: Job | undefined
      while (ended === undefined) {
        const { stream: chunks, ...job } = yield* call((api) =>
          api.jobs.stream({ params: { endpoint, id: receipt.id }, query: { wait: POLL_MILLIS } })
        )
        if (chunks.length > 0) yield* Output.clearProgress
        for (const { output } of chunks) yield* Output.jsonLine(output)
        if (isTerminal(job.status)) ended = job
        else yield* drawProgress(job, since)
      }
      yield* Output.clearProgress
      return yield* requireCompleted(ended)
    }
    if (sync) {
      const job = yield* awaitEnd(endpoint, receipt)
      yield* Output.print(json, job, Output.job)
      return yield* requireCompleted(job)
    }
    yield* Output.print(json, receipt, ({ id, status }) => `${id}  ${status}\nFollow it with: stint status ${endpoint} ${id}`)
  })
).pipe(
  Command.withDescription("Submit a job"),
  Command.withExamples([
    { command: "stint run hello --input '{\"name\":\"Ada\"}' --sync", description: "Submit and wait for the result" },
    { command: "stint run countdown --input '{\"from\":3}' --stream", description: "Print each chunk as it arrives" }
  ])
)
