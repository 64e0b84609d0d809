/**
 * Endpoints: what runs, on how many workers, and how long its jobs may take.
 *
 * Settings and defaults follow docs/spec/endpoints.md#endpoint-settings; where a default differs, the field says why.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { EndpointId } from "../Ids.ts"
import { MAX_JOB_MILLIS, Retry } from "../jobs/Job.ts"
import { RateLimit } from "./RateLimit.ts"

/**
 * What a worker of the endpoint is.
 *
 * - `handler`: a TypeScript or JavaScript file that calls `serverless.start`; the platform runs it with Node.
 * - `command`: any program that speaks the worker protocol (a Python worker, say).
 * - `external`: nothing is started; workers join by themselves (`stint worker-env`).
 */
export const EndpointSource = Schema.Union([
  Schema.Struct({ type: Schema.tag("handler"), file: Schema.NonEmptyString }),
  Schema.Struct({
    type: Schema.tag("command"),
    command: Schema.NonEmptyArray(Schema.NonEmptyString),
    /** The directory to run in. Default: where the platform was started. */
    directory: Schema.optionalKey(Schema.NonEmptyString)
  }),
  Schema.Struct({ type: Schema.tag("external") })
])
export type EndpointSource = typeof EndpointSource.Type

/**
 * When to add workers (docs/spec/endpoints.md#scaling). In both, the first waiting job of an endpoint without workers starts one at once, and jobs
 * submitted with `lowPriority` start none.
 */
export const Scaler = Schema.Union([
  Schema.Struct({
    /** One more worker while some job has waited longer than `value` seconds. */
    type: Schema.tag("QUEUE_DELAY"),
    value: Schema.Finite.check(Schema.isBetween({ minimum: 0.1, maximum: 3600 }))
  }),
  Schema.Struct({
    /** `ceil((waiting + running) / value)` workers. */
    type: Schema.tag("REQUEST_COUNT"),
    value: Schema.Finite.check(Schema.isBetween({ minimum: 1, maximum: 100_000 }))
  })
])
export type Scaler = typeof Scaler.Type

const withDefault = <S extends Schema.Constraint>(schema: S, value: S["Encoded"]) =>
  Schema.withDecodingDefaultKey<S>(Effect.succeed(value))(schema)

const millis = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

/** How many workers, and for how long an idle one is kept. */
export const WorkerLimits = Schema.Struct({
  /** Workers that always run. 0 (the default) costs nothing while idle and a cold start after it. */
  min: withDefault(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 10_000 })), 0),
  /** The most that run at once. 0 pauses the endpoint: jobs wait. */
  max: withDefault(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 10_000 })), 3),
  /** How long an idle worker above `min` is kept. Longer saves cold starts and holds memory. 0 s to 1 h. */
  idleTimeoutMs: withDefault(millis(0, 3_600_000), 5_000)
}).check(
  Schema.makeFilter((limits) => limits.min <= limits.max || "workers.min must not be above workers.max")
)
export type WorkerLimits = typeof WorkerLimits.Type

/** What an endpoint is made from: the body of `POST /api/v1/endpoints`. Everything but `id` and `source` has a default. */
export const EndpointSpec = Schema.Struct({
  id: EndpointId,
  source: EndpointSource,
  workers: withDefault(WorkerLimits, {}),
  scaler: withDefault(Scaler, { type: "QUEUE_DELAY", value: 4 }),
  /** How long one attempt of a job may run before it is TIMED_OUT. */
  executionTimeoutMs: withDefault(millis(5_000, MAX_JOB_MILLIS), 600_000),
  /** How long a job may live from submission before it is TIMED_OUT. */
  ttlMs: withDefault(millis(10_000, MAX_JOB_MILLIS), 86_400_000),
  /**
   * How long a job stays with a silent worker. Shorter notices a lost worker sooner and asks for more heartbeats: workers beat
   * three times a lease.
   */
  leaseMs: withDefault(millis(1_000, 3_600_000), 30_000),
  /** How often a job may be given to a worker before a lost worker makes it FAILED. 2 is what existing clients know. */
  maxAttempts: withDefault(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 })), 2),
  /**
   * How failed attempts are tried again, where the request does not say. `retry.maxAttempts` counts where both it and `maxAttempts` are
   * there. Default: lost workers at once, errors never.
   */
  retry: Schema.optionalKey(Retry),
  /** How long a finished job can be asked for. A day, where the described platform keeps 1 to 30 minutes (docs/spec/job-lifecycle.md#retention). */
  retentionMs: withDefault(millis(1_000, 30 * 86_400_000), 86_400_000),
  /** `none` strips `error_traceback` from what callers see (docs/spec/rulings.md#error-on-the-wire). */
  errorTraceback: withDefault(Schema.Literals(["full", "none"]), "full"),
  /** How often each key may call this endpoint, per kind of operation. Default: as often as it likes. A key's own limit stands in its place. */
  rateLimit: Schema.optionalKey(RateLimit),
  /** Extra environment of the workers. */
  env: withDefault(Schema.Record(Schema.String, Schema.String), {})
})
export type EndpointSpec = typeof EndpointSpec.Type

/** An endpoint as the platform keeps it. */
export const Endpoint = Schema.Struct({
  ...EndpointSpec.fields,
  /** Milliseconds since 1970. */
  createdAt: Schema.Int
})
export type Endpoint = typeof Endpoint.Type
