/**
 * One endpoint of a configuration, or of a plugin package.
 */
import { WorkerVariables } from "@stint/contract/Endpoint"
import { type FieldIssue, formatFieldIssue } from "@stint/contract/SchemaIssues"
import { didYouMean } from "@stint/contract/Suggestion"
import type * as Duration from "effect/Duration"
import * as Schema from "effect/Schema"
import { bytesOf } from "./SizeText.ts"

/** A duration: text such as `"5 seconds"`, or milliseconds. */
export type DurationInput = Duration.Input

/** One endpoint in the file. Omitted members have the platform's default values (see `EndpointSpec`). */
export interface EndpointDefinition {
  /** A file that calls `serverless.start` or launches a `Worker`. */
  readonly handler?: string
  /** A `*.pipeline.json`. Its name is the endpoint's id. */
  readonly pipeline?: string
  /** A program that implements the worker protocol, with its arguments. With `image`: the arguments of the image's ENTRYPOINT. */
  readonly command?: readonly [string, ...Array<string>]
  /** The working directory that all workers of `command` share. Default: each worker has its own folder. */
  readonly cwd?: string
  /** The name of an image whose program implements the worker protocol. Docker or Podman runs it on the platform's machine. */
  readonly image?: string
  /** The CPUs that a worker may use. Default: no limit. */
  readonly cpus?: number
  /** The memory that a worker may use, such as `"8 GiB"`, or bytes. Default: no limit. */
  readonly memory?: string | number
  /** The number of processes and threads that a worker may have. Default: 1,024 with `image`, otherwise no limit. */
  readonly pids?: number
  /** The number of GPUs that a worker gets for itself, or `"all"`. Default: none are reserved. */
  readonly gpus?: number | "all"
  /**
   * `source` is a volume that `STINT_VOLUMES` defines. With `image`, it may also be a folder that `STINT_ENGINE_VOLUMES` allows, or a volume of the
   * engine; the default targets are `/platform-volume` and `/runpod-volume`. Workers of a handler or command have one volume, whose path is in
   * `PLATFORM_VOLUME_PATH`.
   */
  readonly volumes?: ReadonlyArray<{ readonly source: string; readonly target?: string; readonly readOnly?: boolean }>
  /** With `image`: a network of the engine, or `"host"`. Default: a network in which a worker reaches only the platform. */
  readonly network?: string
  /** With `image`: the user of a worker's processes, such as `"1000:1000"`. Default: the image's user. */
  readonly user?: string
  /** Workers are started elsewhere and connect to the platform. */
  readonly external?: boolean
  readonly workers?: {
    readonly min?: number
    readonly max?: number
    readonly idleTimeout?: DurationInput
    /** Recurring periods in which `min` workers always run. `start` and `end` are cron expressions; the default time zone is UTC. */
    readonly warm?: ReadonlyArray<{
      readonly start: string
      readonly end: string
      readonly timeZone?: string
      readonly min: number
    }>
  }
  readonly scaler?:
    | { readonly type: "QUEUE_DELAY"; readonly after: DurationInput }
    | { readonly type: "REQUEST_COUNT"; readonly perWorker: number }
  readonly executionTimeout?: DurationInput
  readonly ttl?: DurationInput
  readonly lease?: DurationInput
  readonly maxAttempts?: number
  /** How failed attempts are retried. `retry.maxAttempts` takes precedence over `maxAttempts`. */
  readonly retry?: {
    readonly maxAttempts?: number
    /** Also retry after an error in the handler. Default: only after the loss of the worker. */
    readonly onError?: boolean
    /** The wait before the next attempt. `factor`: default 2; `max`: default 1 hour. */
    readonly backoff?: { readonly initial: DurationInput; readonly factor?: number; readonly max?: DurationInput }
  }
  readonly retention?: DurationInput
  /**
   * How many jobs with the same key may run at the same time. `key`: `input.PATH`, for example `input.customer`, or any other text, which is then the
   * key of all jobs. Default: no limit.
   */
  readonly concurrency?: { readonly key: string; readonly limit: number }
  /**
   * The maxima that callers may request. Default: `executionTimeout` and `ttl` if they are set, otherwise 7 days; the others have no maximum.
   */
  readonly limits?: {
    readonly executionTimeout?: DurationInput
    readonly ttl?: DurationInput
    readonly maxAttempts?: number
    readonly priority?: number
    readonly startDelay?: DurationInput
    readonly openBatches?: number
    readonly batchRequests?: number
    /** The number of jobs that may wait on the endpoint. */
    readonly waitingJobs?: number
    /** The size of the endpoint's stored jobs: bytes, or a text such as `"5 GB"`. */
    readonly storedBytes?: number | string
  }
  readonly errorTraceback?: "full" | "none"
  /** Whether workers that share the endpoint's key must send lease tokens. */
  readonly leaseToken?: "required" | "optional"
  /** The rate limit for each key and kind of operation. */
  readonly rateLimit?: { readonly limit: number; readonly per: DurationInput; readonly concurrent?: number }
  /** A model that the platform downloads once for all workers, before they start: `"owner/name"` or `"owner/name@revision"`. */
  readonly model?: string
  /** The secret that contains the hub's token for `model`. Default: none, which is enough for public models. */
  readonly modelToken?: { readonly secret: string }
  /** The labels that the machines of the workers must have. Default: none. */
  readonly placement?: { readonly labels: Readonly<Record<string, string>> }
  /** Variables for the workers. `{ secret: "hf-token" }` stands for the value of a secret (`stint secrets set hf-token`). */
  readonly env?: Readonly<Record<string, string | { readonly secret: string }>>
}
const TimeSpan = Schema.Union([Schema.DurationFromString, Schema.DurationFromMillis])

/** A size: bytes, or a text such as `"5 GB"`. */
const Size = Schema.Union([
  Schema.Int,
  Schema.String.check(Schema.makeFilter((text) => bytesOf(text) !== undefined || "expected a size, for example \"5 GB\""))
])

/** One endpoint in the file, decoded. */
export const Definition = Schema.Struct({
  handler: Schema.optionalKey(Schema.NonEmptyString),
  pipeline: Schema.optionalKey(Schema.NonEmptyString),
  command: Schema.optionalKey(Schema.NonEmptyArray(Schema.NonEmptyString)),
  cwd: Schema.optionalKey(Schema.NonEmptyString),
  image: Schema.optionalKey(Schema.NonEmptyString),
  cpus: Schema.optionalKey(Schema.Finite),
  memory: Schema.optionalKey(Schema.Union([Schema.Finite, Schema.NonEmptyString])),
  pids: Schema.optionalKey(Schema.Finite),
  gpus: Schema.optionalKey(Schema.Union([Schema.Finite, Schema.Literal("all")])),
  volumes: Schema.optionalKey(Schema.Array(Schema.Struct({
    source: Schema.NonEmptyString,
    target: Schema.optionalKey(Schema.NonEmptyString),
    readOnly: Schema.optionalKey(Schema.Boolean)
  }))),
  network: Schema.optionalKey(Schema.NonEmptyString),
  user: Schema.optionalKey(Schema.NonEmptyString),
  external: Schema.optionalKey(Schema.Boolean),
  workers: Schema.optionalKey(Schema.Struct({
    min: Schema.optionalKey(Schema.Int),
    max: Schema.optionalKey(Schema.Int),
    idleTimeout: Schema.optionalKey(TimeSpan),
    warm: Schema.optionalKey(Schema.Array(Schema.Struct({
      start: Schema.String,
      end: Schema.String,
      timeZone: Schema.optionalKey(Schema.String),
      min: Schema.Int
    })))
  })),
  scaler: Schema.optionalKey(Schema.Union([
    Schema.Struct({ type: Schema.Literal("QUEUE_DELAY"), after: TimeSpan }),
    Schema.Struct({ type: Schema.Literal("REQUEST_COUNT"), perWorker: Schema.Finite })
  ])),
  executionTimeout: Schema.optionalKey(TimeSpan),
  ttl: Schema.optionalKey(TimeSpan),
  lease: Schema.optionalKey(TimeSpan),
  maxAttempts: Schema.optionalKey(Schema.Int),
  retry: Schema.optionalKey(Schema.Struct({
    maxAttempts: Schema.optionalKey(Schema.Int),
    onError: Schema.optionalKey(Schema.Boolean),
    backoff: Schema.optionalKey(Schema.Struct({
      initial: Schema.optionalKey(TimeSpan),
      factor: Schema.optionalKey(Schema.Finite),
      max: Schema.optionalKey(TimeSpan)
    }))
  })),
  retention: Schema.optionalKey(TimeSpan),
  concurrency: Schema.optionalKey(Schema.Struct({ key: Schema.String, limit: Schema.Int })),
  limits: Schema.optionalKey(Schema.Struct({
    executionTimeout: Schema.optionalKey(TimeSpan),
    ttl: Schema.optionalKey(TimeSpan),
    maxAttempts: Schema.optionalKey(Schema.Int),
    priority: Schema.optionalKey(Schema.Int),
    startDelay: Schema.optionalKey(TimeSpan),
    openBatches: Schema.optionalKey(Schema.Int),
    batchRequests: Schema.optionalKey(Schema.Int),
    waitingJobs: Schema.optionalKey(Schema.Int),
    storedBytes: Schema.optionalKey(Size)
  })),
  errorTraceback: Schema.optionalKey(Schema.Literals(["full", "none"])),
  leaseToken: Schema.optionalKey(Schema.Literals(["required", "optional"])),
  rateLimit: Schema.optionalKey(Schema.Struct({
    limit: Schema.Int,
    per: TimeSpan,
    concurrent: Schema.optionalKey(Schema.Int)
  })),
  model: Schema.optionalKey(Schema.NonEmptyString),
  modelToken: Schema.optionalKey(Schema.Struct({ secret: Schema.NonEmptyString })),
  placement: Schema.optionalKey(Schema.Struct({ labels: Schema.Record(Schema.String, Schema.String) })),
  env: Schema.optionalKey(WorkerVariables)
})
export type Definition = typeof Definition.Type

/** The part of a definition that says what the workers run. */
export type SourceDefinition = Pick<
  Definition,
  "handler" | "pipeline" | "command" | "cwd" | "external" | "image" | "volumes" | LimitKey | ContainerKey
>

/** The limits of workers that the platform starts. */
export const LIMIT_KEYS = ["cpus", "gpus", "memory", "pids"] as const
/** One of {@link LIMIT_KEYS}. */
export type LimitKey = (typeof LIMIT_KEYS)[number]

/** The settings that need an image. */
export const CONTAINER_KEYS = ["network", "user"] as const
/** One of {@link CONTAINER_KEYS}. */
export type ContainerKey = (typeof CONTAINER_KEYS)[number]

/** Schema's message for an unknown key. */
const EXCESS = "Expected no excess property"

const { concurrency, limits, placement, rateLimit, retry, workers } = Definition.fields

/** The keys of each group of an endpoint's settings. */
const GROUP_KEYS: Readonly<Record<string, ReadonlyArray<string>>> = {
  workers: Object.keys(workers.schema.fields),
  concurrency: Object.keys(concurrency.schema.fields),
  limits: Object.keys(limits.schema.fields),
  retry: Object.keys(retry.schema.fields),
  rateLimit: Object.keys(rateLimit.schema.fields),
  placement: Object.keys(placement.schema.fields),
  scaler: ["type", "after", "perWorker"]
}

/** The keys that are allowed at the end of a path: `ROOT`, `endpoints.ID.key` or `endpoints.ID.group.key`. */
const keysAt = (
  path: FieldIssue["path"],
  roots: ReadonlyArray<string>,
  keys: ReadonlyArray<string>
): ReadonlyArray<string> => {
  if (path.length === 1) return roots
  return path.length === 3 ? keys : GROUP_KEYS[String(path[2])] ?? []
}

/** Names an unknown key, and the closest known one. `roots`: the keys of the whole file; `keys`: those of an endpoint. */
export const describeIssue = (
  issue: FieldIssue,
  roots: ReadonlyArray<string> = ["endpoints"],
  keys: ReadonlyArray<string> = Object.keys(Definition.fields)
): string =>
  issue.message === EXCESS
    ? `${issue.path.join(".")}: There is no such key.${didYouMean(String(issue.path.at(-1)), keysAt(issue.path, roots, keys))}`
    : formatFieldIssue(issue)
