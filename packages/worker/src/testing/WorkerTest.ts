/**
 * Runs a handler in a test as a worker would, without a platform, a separate process or a network.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import type * as Handler from "../handlers/Handler.ts"
import { runToOutcome } from "../handlers/HandlerRun.ts"
import * as Outcome from "../handlers/Outcome.ts"
import type { Runnable } from "../handlers/Runnable.ts"
import * as JobMiddleware from "../plugins/JobMiddleware.ts"
import type { JobServices } from "../runtime/JobRunner.ts"
import { VERSION } from "../runtime/Version.ts"
import type { Identity } from "../runtime/WorkerConfig.ts"

/** The job's outcome, as the caller sees it. Values are JSON. */
export interface Result {
  readonly status: "COMPLETED" | "FAILED"
  /** Undefined when the caller receives no `output`. */
  readonly output: Schema.Json | undefined
  /** For an exception, JSON text with six fields (docs/spec/handler.md#exceptions). */
  readonly error: string | undefined
  /** The chunks of the handler, in order. */
  readonly chunks: ReadonlyArray<Schema.Json>
  /** Whether the handler requested a fresh worker. */
  readonly stopPod: boolean
}

const identity: Identity = { workerId: "test-worker", hostname: "test-host", version: VERSION }

/** Options of a run. */
export interface Options<out Middleware extends ReadonlyArray<JobMiddleware.Any>> {
  /** As in `Worker.layer`, but set up for this run alone. Default: none. */
  readonly middleware?: Middleware
}

const decodeJson = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Json))
const decodeBody = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ output: Schema.optionalKey(Schema.Json), error: Schema.optionalKey(Schema.String) }))
)

/**
 * Runs a handler of any form on a job with this input, which is encoded as JSON. The handler may reject it.
 */
export const runJson = Effect.fnUntraced(function*<R, const Middleware extends ReadonlyArray<JobMiddleware.Any> = readonly []>(
  handler: Runnable<R>,
  input: unknown,
  job: Partial<ReceivedJob> = {},
  options: Options<Middleware> = {}
): Effect.fn.Return<Result, never, JobServices<R, Middleware> | JobMiddleware.SetupServices<Middleware> | Scope.Scope> {
  const middleware = yield* JobMiddleware.chain(options.middleware)
  const chunks: Array<Schema.Json> = []
  const received: ReceivedJob = {
    id: `test-${crypto.randomUUID()}`,
    ...job,
    input: decodeJson(JSON.stringify(input) ?? "null")
  }
  const outcome = yield* runToOutcome(handler, middleware, identity)(
    received,
    (chunk) => Effect.sync(() => void chunks.push(decodeJson(JSON.stringify(chunk) ?? "null")))
  )
  const ended = Outcome.toText(outcome ?? Outcome.failed("the job was lost"), identity)
  const { error, output } = decodeBody(ended.text)
  return {
    status: error === undefined ? "COMPLETED" : "FAILED",
    output,
    error,
    chunks,
    stopPod: ended.outcome.stopPod === true
  }
}, Effect.scoped)

/**
 * Runs a handler with Schemas on a typed input. Its services come from the context, so a test provides layers and needs no mocks.
 *
 * @example
 * ```ts
 * it.effect("squares", () => Effect.gen(function*() {
 *   const result = yield* WorkerTest.run(Square, { n: 3 })
 *   expect(result.output).toEqual({ square: 9 })
 * }))
 * ```
 */
export const run = <
  Name extends string,
  I extends Schema.Constraint,
  O extends Schema.Constraint,
  E extends Schema.Constraint,
  R,
  const Middleware extends ReadonlyArray<JobMiddleware.Any> = readonly []
>(
  handler: Handler.Handler<Name, I, O, E, R>,
  input: I["Type"],
  job: Partial<ReceivedJob> = {},
  options: Options<Middleware> = {}
): Effect.Effect<
  Result,
  never,
  Exclude<JobServices<R, Middleware> | JobMiddleware.SetupServices<Middleware>, Scope.Scope> | I["EncodingServices"]
> =>
  Effect.flatMap(
    Effect.orDie(Schema.encodeUnknownEffect(Schema.toCodecJson(handler.input))(input)),
    (encoded) => runJson(handler, encoded, job, options)
  )
