/**
 * Local test mode: runs one job from a file, prints its result and exits (docs/spec/local-test-mode.md#one-job).
 *
 * It is a transport, so the job runs in the same runtime as in production:
 *
 * ```
 *   test_input.json | --test_input JSON | jobs --take--> the worker --done--> the terminal --last one--> exit 0, or 1
 * ```
 *
 * This mode does not consume generators, and the printed result says so (docs/spec/rulings.md#local-test-mode).
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import * as Outcome from "../handlers/Outcome.ts"
import { messageOf } from "../handlers/ThrownValue.ts"
import { Shutdown } from "../runtime/Shutdown.ts"
import { WorkerConfig } from "../runtime/WorkerConfig.ts"
import { JobSource } from "../transport/JobSource.ts"
import * as TestInput from "./TestInput.ts"

/** There is no valid test job. The message contains the remedy. */
export class LocalTestError extends Schema.TaggedError<LocalTestError>()("LocalTestError", {
  message: Schema.String
}) {}

/** Options for local test mode. */
export interface Options {
  /**
   * Returns the jobs instead of `test_input.json`: one `{ input }`, or a list of them (docs/spec/handler.md#start-configuration,
   * `jobs_fetcher`). Called once, with 1 as `needed`.
   */
  readonly jobs?: (needed: number) => unknown
}

const { EXAMPLE } = TestInput

const problem = (message: string) => new LocalTestError({ message })

const readTestInput = Effect.suspend(() => {
  const found = TestInput.find()
  if (found !== undefined) return Effect.succeed({ from: found.path, text: found.text })
  return Effect.fail(problem(
    `This is local test mode, because PLATFORM_WEBHOOK_GET_JOB is not set, and there is no ${TestInput.FILE} in ${
      TestInput.folders().join(" or ")
    }. Create one with the job in it, such as ${EXAMPLE}, or pass it with --test_input '${EXAMPLE}'.`
  ))
})

const toJob = Effect.fnUntraced(function*(value: unknown, from: string) {
  if (!Predicate.isObject(value) || !("input" in value)) {
    return yield* problem(`${from} must be an object with the key "input", such as ${EXAMPLE}.`)
  }
  const input = Schema.decodeUnknownOption(Schema.Json)(value["input"])
  if (Option.isNone(input)) return yield* problem(`The input in ${from} is not a JSON value.`)
  const job: ReceivedJob = { ...value, id: `test-${crypto.randomUUID()}`, input: input.value }
  return job
})

const findJobs = Effect.fnUntraced(function*(options: Options) {
  const { flags } = yield* WorkerConfig
  for (
    const [name, value] of [
      ["--rp_api_port", flags.apiPort],
      ["--rp_api_host", flags.apiHost],
      ["--rp_api_concurrency", flags.apiConcurrency]
    ]
  ) {
    if (value !== undefined) yield* Effect.logWarning(`${name} has no effect without --rp_serve_api.`)
  }
  const { jobs: fetcher } = options
  if (fetcher !== undefined) {
    const fetched = yield* Effect.tryPromise({
      try: async () => fetcher(1),
      catch: (thrown) => problem(`jobs_fetcher failed: ${messageOf(thrown)}`)
    })
    const list = Array.isArray(fetched) ? fetched : [fetched]
    return yield* Effect.forEach(list, (value: unknown) => toJob(value, "The value that jobs_fetcher returned"))
  }
  const given = flags.testInput === undefined ? yield* readTestInput : { from: "--test_input", text: flags.testInput }
  const value = yield* Effect.try({
    try: (): unknown => JSON.parse(given.text),
    catch: (error) => problem(`${given.from} is not valid JSON: ${messageOf(error)}`)
  })
  const job = yield* toJob(value, given.from)
  yield* Effect.logInfo(`Local test mode: running ${job.id} with the input from ${given.from}.`)
  return [job]
})

const decodeBody = Schema.decodeUnknownEffect(
  Schema.fromJsonString(Schema.Struct({ output: Schema.optionalKey(Schema.Json), error: Schema.optionalKey(Schema.String) }))
)

/** The result as text for the terminal. */
const show = (job: ReceivedJob, { error, output }: { readonly output?: Schema.Json; readonly error?: string }): string => {
  const lines = [`${job.id}: ${error === undefined ? "COMPLETED" : "FAILED"}`]
  if (error !== undefined) lines.push(Outcome.readableError(error))
  if (output === Outcome.UNCONSUMED.output) {
    lines.push(
      "The handler is a generator, and local test mode without a flag does not consume it. Pass --rp_serve_api to stream " +
        "its output, or run `stint dev` with its file."
    )
  } else if (output !== undefined) lines.push(JSON.stringify(output, undefined, 2))
  return lines.join("\n")
}

const make = Effect.fnUntraced(function*(options: Options) {
  const shutdown = yield* Shutdown
  const waiting = yield* findJobs(options)
  let left = waiting.length
  let exitCode = 0
  const end = Effect.suspend(() => shutdown.request({ reason: "the local test is done", exitCode }))
  if (left === 0) yield* end

  return JobSource.of({
    take: ({ count }) => waiting.length === 0 ? Effect.never : Effect.sync(() => waiting.splice(0, count)),
    deliverResult: (job, body) =>
      Effect.flatMap(Effect.orDie(decodeBody(body)), (result) => {
        process.stdout.write(`${show(job, result)}\n`)
        if (result.error !== undefined) exitCode = 1
        return --left === 0 ? end : Effect.void
      }),
    deliverChunk: () => Effect.void,
    progress: (_job, output) => Effect.logInfo(`Progress: ${JSON.stringify(output)}`),
    stopRequests: Effect.never,
    ping: () => Effect.void,
    streaming: false
  })
})

/** The transport of local test mode. */
export const layer = (options: Options = {}): Layer.Layer<JobSource, LocalTestError, Shutdown | WorkerConfig> =>
  Layer.effect(JobSource, make(options))
