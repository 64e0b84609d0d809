/**
 * Endpoints as code: defines the file that `stint serve --config FILE` reads.
 *
 * ```ts
 * import { defineConfig } from "@stint/cli"
 *
 * export default defineConfig({
 *   endpoints: {
 *     thumbnail: { handler: "./handler.ts", workers: { max: 4, idleTimeout: "5 seconds" } },
 *     llm: { command: ["python3", "handler.py"], executionTimeout: "10 minutes" }
 *   }
 * })
 * ```
 *
 * Paths are relative to the file. Durations use Effect's syntax: `"5 seconds"`, `"2 minutes"`, or milliseconds.
 */
import { EndpointSpec, withImpliedLimits, WorkerVariables } from "@stint/contract/Endpoint"
import { type FieldIssue, fieldIssues, formatFieldIssue } from "@stint/contract/SchemaIssues"
import { didYouMean } from "@stint/contract/Suggestion"
import * as StintPackages from "@stint/pool-process/StintPackages"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import { pathToFileURL } from "node:url"
import { CliFailure } from "../CliFailure.ts"
import { bytesOf } from "./SizeText.ts"

/** A duration: text such as `"5 seconds"`, or milliseconds. */
export type DurationInput = Duration.Input

/** One endpoint of the file. Omitted members have the platform's default values (see `EndpointSpec`). */
export interface EndpointDefinition {
  /** A file that calls `serverless.start` or launches a `Worker`. */
  readonly handler?: string
  /** A program that speaks the worker protocol, with its arguments. With `image`: the arguments of the image's ENTRYPOINT. */
  readonly command?: readonly [string, ...Array<string>]
  /** The working directory that all workers of `command` share. Default: each worker has a folder of its own. */
  readonly cwd?: string
  /** The name of an image whose program speaks the worker protocol. Docker or Podman runs it on the platform's machine. */
  readonly image?: string
  /** With `image`: the CPUs that a worker may use. Default: no limit. */
  readonly cpus?: number
  /** With `image`: the memory that a worker may use, such as `"8 GiB"`, or bytes. Default: no limit. */
  readonly memory?: string | number
  /** With `image`: the number of processes and threads of a worker. Default: 1,024. */
  readonly pids?: number
  /** With `image`: the number of GPUs of a worker, or `"all"`. */
  readonly gpus?: number | "all"
  /**
   * `source` is a volume of `STINT_VOLUMES`. With `image` also a folder that `STINT_ENGINE_VOLUMES` allows, or a volume of the engine; the
   * default target is `/platform-volume` and `/runpod-volume`. Workers of a handler or command have one, in `PLATFORM_VOLUME_PATH`.
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
    /** Recurring times in which `min` workers always run. `start` and `end` are cron expressions; the default time zone is UTC. */
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
    /** Also retry after an error of the handler. Default: only after the loss of the worker. */
    readonly onError?: boolean
    /** The wait before the next attempt. `factor`: default 2; `max`: default 1 hour. */
    readonly backoff?: { readonly initial: DurationInput; readonly factor?: number; readonly max?: DurationInput }
  }
  readonly retention?: DurationInput
  /**
   * How many jobs with the same key may run at a time. `key`: `input.PATH`, for example `input.customer`, or another text as the key of all
   * jobs. Default: no limit.
   */
  readonly concurrency?: { readonly key: string; readonly limit: number }
  /**
   * The maxima of what callers may ask for. Default: `executionTimeout` and `ttl` if they are set, otherwise 7 days, and no maximum of the
   * others.
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
  /** Variables of the workers. `{ secret: "hf-token" }` stands for the value of a secret (`stint secrets set hf-token`). */
  readonly env?: Readonly<Record<string, string | { readonly secret: string }>>
}

/** The file: endpoints by id. */
export interface EndpointsConfig {
  readonly endpoints: Readonly<Record<string, EndpointDefinition>>
}

/** Returns its argument unchanged; it only adds types. */
export const defineConfig = (config: EndpointsConfig): EndpointsConfig => config

const TimeSpan = Schema.Union([Schema.DurationFromString, Schema.DurationFromMillis])

/** A size: bytes, or a text such as `"5 GB"`. */
const Size = Schema.Union([
  Schema.Int,
  Schema.String.check(Schema.makeFilter((text) => bytesOf(text) !== undefined || "expected a size, for example \"5 GB\""))
])

/** One endpoint of the file, decoded. */
const Definition = Schema.Struct({
  handler: Schema.optionalKey(Schema.NonEmptyString),
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
  env: Schema.optionalKey(WorkerVariables)
})
type Definition = typeof Definition.Type

/** The part of a definition that says what the workers run. */
export type SourceDefinition = Pick<Definition, "handler" | "command" | "cwd" | "external" | "image" | "volumes" | ContainerKey>

/** The settings that need an image. */
const CONTAINER_KEYS = ["cpus", "memory", "pids", "gpus", "network", "user"] as const
type ContainerKey = (typeof CONTAINER_KEYS)[number]

/** Schema's message for an unknown key. */
const EXCESS = "Expected no excess property"

const decodeConfig = Schema.decodeUnknownEffect(
  Schema.Struct({ endpoints: Schema.Record(Schema.String, Definition) }),
  { errors: "all", onExcessProperty: "error" }
)
const decodeSpec = Schema.decodeUnknownEffect(EndpointSpec, { errors: "all" })

const millis = (key: string, value: Duration.Duration | undefined) =>
  value === undefined ? {} : { [key]: Duration.toMillis(value) }

/** The source of a definition with an image. Relative folders are resolved against `directory`. */
const containerOf = Effect.fnUntraced(function*(
  id: string,
  { command, cpus, gpus, image, memory, network, pids, user, volumes }: SourceDefinition & { readonly image: string },
  directory: string
) {
  const path = yield* Path.Path
  const memoryBytes = typeof memory === "string" ? bytesOf(memory) : memory
  if (memory !== undefined && memoryBytes === undefined) {
    return yield* new CliFailure({
      message: `The memory of endpoint "${id}" is "${memory}", which is not a size.`,
      hint: "For example: \"512 MiB\" or \"8 GiB\"."
    })
  }
  const optional = { command, cpus, memoryBytes, pids, gpus, network, user }
  return {
    type: "container",
    image,
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)),
    ...(volumes === undefined ? {} : {
      volumes: volumes.map((volume) =>
        volume.source.startsWith(".") ? { ...volume, source: path.resolve(directory, volume.source) } : volume
      )
    })
  }
})

/** The source of a definition. Paths are resolved against `directory`. */
export const toSource = Effect.fnUntraced(function*(id: string, definition: SourceDefinition, directory: string) {
  const path = yield* Path.Path
  const { image } = definition
  // A command beside an image is the image's.
  const command = image === undefined ? definition.command : undefined
  const given = [definition.handler, command, image, definition.external === true ? true : undefined].filter((one) =>
    one !== undefined
  )
  if (given.length !== 1) {
    return yield* new CliFailure({
      message: `The endpoint "${id}" needs exactly one of handler, command, image and external; it has ${given.length}.`,
      hint: "For example: { handler: \"./handler.ts\" }."
    })
  }
  const needless = CONTAINER_KEYS.filter((key) => definition[key] !== undefined)
  if (image === undefined && needless.length > 0) {
    return yield* new CliFailure({
      message: `The endpoint "${id}" has ${needless.join(", ")} but no image. Only containers have these settings.`,
      hint: "Remove them, or use them with image."
    })
  }
  if (definition.external === true && definition.volumes !== undefined) {
    return yield* new CliFailure({
      message: `The endpoint "${id}" has volumes, but the platform does not start its workers.`,
      hint: "Remove volumes, and set PLATFORM_VOLUME_PATH where the workers are started."
    })
  }
  if (definition.cwd !== undefined && command === undefined) {
    return yield* new CliFailure({
      message: `The endpoint "${id}" has cwd "${definition.cwd}" but no command. Handlers run in the folder of their file${
        image === undefined ? "" : ", and containers in the folder that their image sets"
      }.`,
      hint: "Remove cwd, or use it with command."
    })
  }
  if (image !== undefined) return yield* containerOf(id, { ...definition, image }, directory)
  const volumes = definition.volumes === undefined ? {} : { volumes: definition.volumes }
  if (definition.handler !== undefined) {
    return { type: "handler", file: path.resolve(directory, definition.handler), ...volumes }
  }
  if (definition.command !== undefined) {
    const cwd = definition.cwd === undefined ? {} : { cwd: path.resolve(directory, definition.cwd) }
    return { type: "command", command: definition.command, directory, ...cwd, ...volumes }
  }
  return { type: "external" }
})

const scalerOf = (scaler: Definition["scaler"]) => {
  if (scaler === undefined) return {}
  return scaler.type === "QUEUE_DELAY"
    ? { scaler: { type: scaler.type, value: Duration.toSeconds(scaler.after) } }
    : { scaler: { type: scaler.type, value: scaler.perWorker } }
}

const limitsOf = (limits: Definition["limits"]) => {
  if (limits === undefined) return {}
  const { executionTimeout, startDelay, storedBytes, ttl, ...numbers } = limits
  const bytes = typeof storedBytes === "string" ? bytesOf(storedBytes) : storedBytes
  return {
    limits: {
      ...numbers,
      ...(bytes === undefined ? {} : { storedBytes: bytes }),
      ...millis("executionTimeoutMs", executionTimeout),
      ...millis("ttlMs", ttl),
      ...millis("startDelayMs", startDelay)
    }
  }
}

const retryOf = (retry: Definition["retry"]) => {
  if (retry === undefined) return {}
  const { backoff, ...rest } = retry
  return {
    retry: {
      ...rest,
      ...(backoff === undefined ? {} : {
        backoff: {
          ...millis("initialMs", backoff.initial),
          ...(backoff.factor === undefined ? {} : { factor: backoff.factor }),
          ...millis("maxMs", backoff.max)
        }
      })
    }
  }
}

/** The settings of a definition in the form of an `EndpointSpec`, without those that it does not set. */
const toSettings = (definition: Definition) => {
  const { concurrency, errorTraceback, env, leaseToken, maxAttempts, model, modelToken, rateLimit, workers } = definition
  return {
    ...(workers === undefined ? {} : {
      workers: {
        ...(workers.min === undefined ? {} : { min: workers.min }),
        ...(workers.max === undefined ? {} : { max: workers.max }),
        ...millis("idleTimeoutMs", workers.idleTimeout),
        ...(workers.warm === undefined ? {} : { warm: workers.warm })
      }
    }),
    ...scalerOf(definition.scaler),
    ...millis("executionTimeoutMs", definition.executionTimeout),
    ...millis("ttlMs", definition.ttl),
    ...millis("leaseMs", definition.lease),
    ...millis("retentionMs", definition.retention),
    ...limitsOf(definition.limits),
    ...retryOf(definition.retry),
    ...(maxAttempts === undefined ? {} : { maxAttempts }),
    ...(concurrency === undefined ? {} : { concurrency }),
    ...(errorTraceback === undefined ? {} : { errorTraceback }),
    ...(leaseToken === undefined ? {} : { leaseToken }),
    ...(rateLimit === undefined ? {} : {
      rateLimit: {
        limit: rateLimit.limit,
        ...millis("perMs", rateLimit.per),
        ...(rateLimit.concurrent === undefined ? {} : { concurrent: rateLimit.concurrent })
      }
    }),
    ...(model === undefined ? {} : { model }),
    ...(modelToken === undefined ? {} : { modelToken }),
    ...(env === undefined ? {} : { env })
  }
}

/** Converts one definition to an `EndpointSpec`. Paths are resolved against `directory`. */
const toSpec = Effect.fnUntraced(function*(id: string, definition: Definition, directory: string) {
  return yield* decode({ id, source: yield* toSource(id, definition, directory), ...toSettings(definition) })
})

/** Decodes a spec. Fails with every invalid setting. */
export const decode = Effect.fnUntraced(function*(spec: { readonly id: string; readonly [setting: string]: unknown }) {
  return yield* decodeSpec(spec).pipe(
    Effect.map((decoded) => withImpliedLimits(spec, decoded)),
    Effect.mapError((error) =>
      new CliFailure({
        message: `The endpoint "${spec.id}" cannot be set up like this.`,
        hint: fieldIssues(error).map(formatFieldIssue).join("\n  ")
      })
    )
  )
})

/**
 * Fails when the handler of an endpoint is not a file of this machine. For endpoints of a platform on this machine only: the paths of another
 * machine cannot be checked here.
 */
export const requireHandler = Effect.fnUntraced(function*({ id, source }: Pick<EndpointSpec, "id" | "source">) {
  if (source.type !== "handler") return
  const fs = yield* FileSystem.FileSystem
  const found = yield* Effect.option(fs.stat(source.file))
  if (Option.isSome(found) && found.value.type === "File") return
  return yield* new CliFailure({
    message: `The handler of endpoint "${id}" is not a file: ${source.file}${
      Option.isSome(found) ? " is a folder." : " does not exist."
    }`,
    hint:
      "Correct the path, which is relative to the configuration file or else to this folder. For a new project, run: stint init my-app"
  })
})

const { concurrency, limits, rateLimit, retry, workers } = Definition.fields

/** The keys of the groups of an endpoint. */
const GROUP_KEYS: Readonly<Record<string, ReadonlyArray<string>>> = {
  workers: Object.keys(workers.schema.fields),
  concurrency: Object.keys(concurrency.schema.fields),
  limits: Object.keys(limits.schema.fields),
  retry: Object.keys(retry.schema.fields),
  rateLimit: Object.keys(rateLimit.schema.fields),
  scaler: ["type", "after", "perWorker"]
}

/** The keys that are allowed where a path ends: `endpoints`, or `endpoints.ID.key`, or `endpoints.ID.group.key`. */
const keysAt = (path: FieldIssue["path"]): ReadonlyArray<string> => {
  if (path.length === 1) return ["endpoints"]
  return path.length === 3 ? Object.keys(Definition.fields) : GROUP_KEYS[String(path[2])] ?? []
}

/** Names an unknown key, and the closest known one. */
const describeIssue = (issue: FieldIssue): string =>
  issue.message === EXCESS
    ? `${issue.path.join(".")}: There is no such key.${didYouMean(String(issue.path.at(-1)), keysAt(issue.path))}`
    : formatFieldIssue(issue)

/** Loads and decodes the file's default export. */
export const load = Effect.fn("EndpointsFile.load")(function*(file: string) {
  const path = yield* Path.Path
  const absolute = path.resolve(file)
  const loaded = yield* Effect.tryPromise({
    try: async (): Promise<unknown> => {
      await StintPackages.addToThisProcess(import.meta.url)
      return import(pathToFileURL(absolute).href)
    },
    catch: (cause) =>
      new CliFailure({
        message: `The configuration ${absolute} cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`,
        hint: "It must be a TypeScript or JavaScript module with `export default defineConfig({ endpoints: { ... } })`."
      })
  })
  const config = yield* decodeConfig(
    typeof loaded === "object" && loaded !== null && "default" in loaded ? loaded.default : undefined
  ).pipe(
    Effect.mapError((error) =>
      new CliFailure({
        message: `The configuration ${absolute} has mistakes.`,
        hint: fieldIssues(error).map(describeIssue).join("\n  "),
        code: "invalid-configuration"
      })
    )
  )
  return yield* Effect.forEach(
    Object.entries(config.endpoints),
    ([id, definition]) => Effect.tap(toSpec(id, definition, path.dirname(absolute)), requireHandler)
  )
})
