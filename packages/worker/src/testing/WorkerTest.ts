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
import { withJobSpan } from "../runtime/Spans.ts"
import { VERSION } from "../runtime/Version.ts"
import type { Identity } from "../runtime/WorkerConfig.ts"

/** The job's outcome, as the caller sees it. {@link runJson} returns JSON values, and {@link run} returns values of the handler's Schemas. */
export interface Result<out Output = Schema.Json, out Chunk = Schema.Json, out Failure = never> {
  readonly status: "COMPLETED" | "FAILED"
  /** Undefined when the caller receives no `output`. */
  readonly output: Output | undefined
  /**
   * The text that the caller receives: for a declared failure, its JSON; for an exception, JSON with six fields
   * (docs/spec/handler.md#exceptions).
   */
  readonly error: string | undefined
  /** The declared failure; undefined for a job that completed or failed for another reason. */
  readonly failure: Failure | undefined
  /** The handler's chunks, in order. */
  readonly chunks: ReadonlyArray<Chunk>
  /** Whether the handler requested a fresh worker. */
  readonly stopPod: boolean
}

/** The services that a run needs: for the handler, for the middleware, and for the Schemas in both directions. */
type Needs<
  I extends Schema.Constraint,
  O extends Schema.Constraint,
  E extends Schema.Constraint,
  R,
  Middleware extends ReadonlyArray<JobMiddleware.Any>
> =
  | Exclude<JobServices<R, Middleware> | JobMiddleware.SetupServices<Middleware>, Scope.Scope>
  | I["EncodingServices"]
  | O["DecodingServices"]
  | E["DecodingServices"]

const identity: Identity = { workerId: "test-worker", hostname: "test-host", version: VERSION }

/** Options for a run. */
export interface Options<out Middleware extends ReadonlyArray<JobMiddleware.Any>> {
  /** As in `Worker.layer`, but set up for this run alone. Default: none. */
  readonly middleware?: Middleware
}

/** Text that is not JSON stays unchanged, because a failure that is a string is sent as plain text. */
const decodeText = (text: string) =>
  Effect.orElseSucceed(Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Json))(text), (): Schema.Json => text)

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
  let failed: string | undefined
  const outcome = yield* runToOutcome(handler, middleware, identity)(
    received,
    (chunk) => Effect.sync(() => void chunks.push(decodeJson(JSON.stringify(chunk) ?? "null")))
  ).pipe(
    Effect.tap((ended) =>
      Effect.sync(() => {
        failed = ended?.error
      })
    ),
    withJobSpan({ job: received, endpoint: undefined, handler: handler.name, isFirst: false, errorOf: () => failed })
  )
  const ended = Outcome.toText(outcome ?? Outcome.failed("the job was lost"), identity)
  const { error, output } = decodeBody(ended.text)
  return {
    status: error === undefined ? "COMPLETED" : "FAILED",
    output,
    error,
    failure: undefined,
    chunks,
    stopPod: ended.outcome.stopPod === true
  }
}, Effect.scoped)

/**
 * Runs a handler with Schemas on a typed input, and decodes its output, its chunks and its declared failure as a typed client does. Dies when
 * they cannot be decoded, because no caller could decode them either. Its services come from the context, so a test provides layers and needs no
 * mocks.
 *
 * @example
 * ```ts
 * it.effect("squares", () => Effect.gen(function*() {
 *   const result = yield* WorkerTest.run(Square, { n: 3 })
 *   expect(result.output).toEqual({ square: 9 })
 * }))
 * ```
 */
export function run<
  Name extends string,
  I extends Schema.Constraint,
  O extends Schema.Constraint,
  E extends Schema.Constraint,
  R,
  const Middleware extends ReadonlyArray<JobMiddleware.Any> = readonly []
>(
  handler: Handler.Handler<Name, I, O, E, R> & { readonly streams: false },
  input: I["Type"],
  job?: Partial<ReceivedJob>,
  options?: Options<Middleware>
): Effect.Effect<Result<O["Type"], O["Type"], E["Type"]>, never, Needs<I, O, E, R, Middleware>>
/** A handler that streams: the output is the list of its collected chunks. */
export function run<
  Name extends string,
  I extends Schema.Constraint,
  O extends Schema.Constraint,
  E extends Schema.Constraint,
  R,
  const Middleware extends ReadonlyArray<JobMiddleware.Any> = readonly []
>(
  handler: Handler.Handler<Name, I, O, E, R> & { readonly streams: true },
  input: I["Type"],
  job?: Partial<ReceivedJob>,
  options?: Options<Middleware>
): Effect.Effect<Result<ReadonlyArray<O["Type"]>, O["Type"], E["Type"]>, never, Needs<I, O, E, R, Middleware>>
export function run<
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
): Effect.Effect<Result<unknown, O["Type"], E["Type"]>, never, Needs<I, O, E, R, Middleware>> {
  const decode = Schema.decodeUnknownEffect(Schema.toCodecJson(handler.output))
  const decodeFailure = Schema.decodeUnknownEffect(Schema.toCodecJson(handler.error))
  return Effect.gen(function*() {
    const encoded = yield* Effect.orDie(Schema.encodeUnknownEffect(Schema.toCodecJson(handler.input))(input))
    const result = yield* runJson(handler, encoded, job, options)
    const { error, output } = result
    const decodeAll = (values: ReadonlyArray<Schema.Json>) => Effect.orDie(Effect.forEach(values, (value) => decode(value)))
    return {
      ...result,
      chunks: yield* decodeAll(result.chunks),
      output: output === undefined || error !== undefined
        ? undefined
        : handler.streams && Array.isArray(output)
        ? yield* decodeAll(output)
        : yield* Effect.orDie(decode(output)),
      failure: error === undefined
        ? undefined
        : yield* Effect.orElseSucceed(Effect.flatMap(decodeText(error), (value) => decodeFailure(value)), () => undefined)
    }
  })
}
