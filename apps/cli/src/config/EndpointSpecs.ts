/**
 * Converts the definition of an endpoint to the platform's form.
 */
import { EndpointSpec, withImpliedLimits } from "@stint/contract/Endpoint"
import { fieldIssues, formatFieldIssue } from "@stint/contract/SchemaIssues"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import { CliFailure } from "../CliFailure.ts"
import { CONTAINER_KEYS, LIMIT_KEYS } from "./EndpointDefinition.ts"
import type { Definition, SourceDefinition } from "./EndpointDefinition.ts"
import { bytesOf } from "./SizeText.ts"

const decodeSpec = Schema.decodeUnknownEffect(EndpointSpec, { errors: "all" })

const millis = (key: string, value: Duration.Duration | undefined) =>
  value === undefined ? {} : { [key]: Duration.toMillis(value) }

/** The members that are set. */
const given = (members: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))

/** The limits of a definition. */
const workerLimitsOf = Effect.fnUntraced(function*(id: string, { cpus, gpus, memory, pids }: SourceDefinition) {
  const memoryBytes = typeof memory === "string" ? bytesOf(memory) : memory
  if (memory !== undefined && memoryBytes === undefined) {
    return yield* new CliFailure({
      message: `The memory of endpoint "${id}" is "${memory}", which is not a size.`,
      hint: "For example: \"512 MiB\" or \"8 GiB\"."
    })
  }
  return given({ cpus, gpus, memoryBytes, pids })
})

/** The source of a definition with an image. Relative folders are resolved against `directory`. */
const containerOf = Effect.fnUntraced(function*(
  { command, image, network, user, volumes }: SourceDefinition & { readonly image: string },
  directory: string
) {
  const path = yield* Path.Path
  return {
    type: "container",
    image,
    ...given({ command, network, user }),
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
  // With an image, a command contains the image's arguments.
  const command = image === undefined ? definition.command : undefined
  const { handler, pipeline } = definition
  const given = [handler, pipeline, command, image, definition.external === true ? true : undefined].filter((one) =>
    one !== undefined
  )
  if (given.length !== 1) {
    return yield* new CliFailure({
      message:
        `The endpoint "${id}" needs exactly one of handler, pipeline, command, image and external; it has ${given.length}.`,
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
  const limited = LIMIT_KEYS.filter((key) => definition[key] !== undefined)
  if (definition.external === true && limited.length > 0) {
    return yield* new CliFailure({
      message: `The endpoint "${id}" has ${limited.join(", ")}, but the platform does not start its workers.`,
      hint: "Remove them, and limit the workers where they are started."
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
  const limits = yield* workerLimitsOf(id, definition)
  if (image !== undefined) return { ...(yield* containerOf({ ...definition, image }, directory)), ...limits }
  const volumes = definition.volumes === undefined ? {} : { volumes: definition.volumes }
  // For a pipeline file, the module that runs it.
  const module = handler ?? pipeline
  if (module !== undefined) return { type: "handler", file: path.resolve(directory, module), ...limits, ...volumes }
  if (definition.command !== undefined) {
    const cwd = definition.cwd === undefined ? {} : { cwd: path.resolve(directory, definition.cwd) }
    return { type: "command", command: definition.command, directory, ...cwd, ...limits, ...volumes }
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
  const { concurrency, errorTraceback, env, leaseToken, maxAttempts, model, modelToken, placement, rateLimit, workers } =
    definition
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
    ...(placement === undefined ? {} : { placement }),
    ...(env === undefined ? {} : { env })
  }
}

/** Converts one definition to an `EndpointSpec`. Paths are resolved against `directory`. */
export const toSpec = Effect.fnUntraced(function*(id: string, definition: Definition, directory: string) {
  return yield* decode({ id, source: yield* toSource(id, definition, directory), ...toSettings(definition) })
})

/** Decodes a spec. Fails with every invalid setting. */
export const decode = Effect.fnUntraced(function*(spec: { readonly id: string; readonly [setting: string]: unknown }) {
  return yield* decodeSpec(spec).pipe(
    Effect.map((decoded) => withImpliedLimits(spec, decoded)),
    Effect.mapError((error) =>
      new CliFailure({
        message: `The settings of the endpoint "${spec.id}" are invalid.`,
        hint: fieldIssues(error).map(formatFieldIssue).join("\n  ")
      })
    )
  )
})

/**
 * Fails if the handler of an endpoint is not a file on this machine. Only for endpoints of a platform on this machine, because paths on another
 * machine cannot be checked.
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
      "Correct the path, which is relative to the configuration file or, without one, to this folder. For a new project, run: stint init my-app"
  })
})
