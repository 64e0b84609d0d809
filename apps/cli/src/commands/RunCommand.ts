/**
 * `stint run` submits a job. With --sync, it waits for the result. With --stream, it prints the chunks.
 */
import { Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import * as JobWait from "../client/JobWait.ts"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { endpoint, json } from "./SharedFlags.ts"
import { submitFlags, submitOptions } from "./SubmitFlags.ts"

const decodeJson = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Json))

/** The file name that stands for standard input. */
const STANDARD_INPUT = "-"

const readFile = Effect.fnUntraced(function*(file: string) {
  if (file !== STANDARD_INPUT) return yield* (yield* FileSystem.FileSystem).readFileString(file)
  const { stdin } = yield* Stdio.Stdio
  return yield* Stream.mkString(Stream.decodeText(stdin))
}, Effect.mapError((cause) => new CliFailure({ message: `The input cannot be read: ${cause.message}`, hint: "" })))

/** The input of a job, from a flag or from a file. */
export const readInput = Effect.fnUntraced(function*(input: Option.Option<string>, file: Option.Option<string>) {
  if (Option.isSome(input) === Option.isSome(file)) {
    return yield* new CliFailure({
      message: Option.isSome(input) ? "Give --input or --input-file, not both." : "The job needs an input.",
      hint: "For example: --input '{\"name\": \"Ada\"}', --input-file FILE, or --input-file - for standard input."
    })
  }
  const text = Option.isSome(input) ? input.value : yield* readFile(Option.getOrElse(file, () => STANDARD_INPUT))
  return yield* decodeJson(text).pipe(
    Effect.mapError(() =>
      new CliFailure({
        message: `The input is not JSON: ${text.slice(0, 80)}`,
        hint: "Put it in single quotes for the shell, with every string and key in double quotes: --input '{\"name\": \"Ada\"}'."
      })
    )
  )
})

export const command = Command.make(
  "run",
  {
    endpoint,
    input: Flag.String("input").pipe(Flag.withDescription("The job's input, as JSON"), Flag.optional),
    inputFile: Flag.String("input-file").pipe(
      Flag.withDescription("A file with the job's input, as JSON; - reads standard input"),
      Flag.optional
    ),
    sync: Flag.Boolean("sync").pipe(
      Flag.withDescription("Wait for the result; show the job's id and progress on standard error"),
      Flag.withDefault(false)
    ),
    stream: Flag.Boolean("stream").pipe(
      Flag.withDescription("Print each chunk as it arrives, or the result of a job that streams nothing"),
      Flag.withDefault(false)
    ),
    cancelOnInterrupt: Flag.Boolean("cancel-on-interrupt").pipe(
      Flag.withDescription("With --sync or --stream: Ctrl-C cancels the job; by default, the job continues"),
      Flag.withDefault(false)
    ),
    ...submitFlags,
    json
  },
  Effect.fnUntraced(function*({ cancelOnInterrupt, endpoint, input, inputFile, json, stream, sync, ...flags }) {
    const options = yield* submitOptions(flags)
    const value = yield* readInput(input, inputFile)
    const onInterrupt = { cancel: cancelOnInterrupt }
    const request = call((api) => api.jobs.run({ params: { endpoint }, payload: { ...options, input: value } }))
    const receipt = yield* JobWait.submit(endpoint, request, onInterrupt)
    const job = { endpoint, id: receipt.id }
    const shownId = Output.inline(job.id)
    const waiting = JobWait.onInterrupt(job, onInterrupt)
    if (stream || sync) yield* Output.message(`Job ${shownId} of ${endpoint}`)
    if (stream) {
      const { count, job: ended } = yield* waiting(JobWait.streamToEnd(job, Output.jsonLine))
      if (count === 0 && ended.output !== undefined) yield* Output.jsonLine(ended.output)
      return yield* JobWait.requireCompleted(ended, { isPrinted: false })
    }
    if (sync) {
      const ended = yield* waiting(JobWait.awaitEnd(job))
      yield* Output.print(json, ended, Output.job)
      return yield* JobWait.requireCompleted(ended, { isPrinted: true })
    }
    yield* Output.print(
      json,
      receipt,
      ({ status }) => `${shownId}  ${status}\nFollow it with: stint status ${endpoint} ${shownId}`
    )
  })
).pipe(
  Command.withDescription("Submit a job"),
  Command.withExamples([
    { command: "stint run hello --input '{\"name\":\"Ada\"}' --sync", description: "Submit and wait for the result" },
    { command: "stint run countdown --input '{\"from\":3}' --stream", description: "Print each chunk as it arrives" },
    { command: "jq -c .order order.json | stint run orders --input-file -", description: "Read the input from a pipe" },
    { command: "stint run report --input '{}' --at \"2026-11-22 06:00\" --tag nightly", description: "Start at six, local time" }
  ])
)
