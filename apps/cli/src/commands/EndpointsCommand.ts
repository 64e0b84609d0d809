/**
 * `stint endpoints` lists, creates, shows, changes and deletes endpoints. `stint worker-env` prints the environment of an external worker.
 */
import type { Endpoint, EndpointSpec } from "@stint/contract/Endpoint"
import { WorkerId } from "@stint/contract/Ids"
import { Argument, Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import { call, PlatformClient } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import * as EndpointSpecs from "../config/EndpointSpecs.ts"
import * as Output from "../output/Output.ts"
import { isLoopback } from "../platform/SafetyWarnings.ts"
import * as EndpointFlags from "./EndpointFlags.ts"
import { endpoint, json, message as messageFlag } from "./SharedFlags.ts"

const sourceText = ({ source }: Endpoint): string => {
  switch (source.type) {
    case "handler":
      return source.file
    case "command":
      return source.command.join(" ")
    case "container":
      return [`image ${source.image}`, ...source.command ?? []].join(" ")
    case "external":
      return "external workers"
  }
}

const scalerText = ({ scaler }: Endpoint): string =>
  scaler.type === "QUEUE_DELAY" ? `one more worker after ${scaler.value} s of waiting` : `one worker for ${scaler.value} jobs`

const limitText = ({ rateLimit }: Endpoint): string => {
  if (rateLimit === undefined) return "none"
  const open = rateLimit.concurrent === undefined ? "" : `, ${rateLimit.concurrent} open at once`
  return `${rateLimit.limit} calls of each kind in ${rateLimit.perMs / 1000} s per key${open}`
}

const concurrencyText = ({ concurrency }: Endpoint): string =>
  concurrency === undefined ? "none" : `${concurrency.limit} running jobs per key (${concurrency.key})`

const retryText = ({ retry }: Endpoint): string => {
  if (retry === undefined) return "after the loss of a worker"
  const { backoff, maxAttempts, onError } = retry
  const wait = backoff === undefined ? "" : `, after ${backoff.initialMs / 1000} s, each wait ${backoff.factor} times longer`
  return `after ${onError === true ? "errors and " : ""}the loss of a worker${
    maxAttempts === undefined ? "" : `, ${maxAttempts} attempts`
  }${wait}`
}

const releaseText = ({ canary, previousRelease, release }: Endpoint): string =>
  `${release}${previousRelease === undefined ? "" : `, whose first worker is starting; ${previousRelease} serves`}` +
  (canary === undefined ? "" : `; ${canary.release} is a canary with ${canary.percent} % of the jobs`)

/** The maxima that callers may request. */
const callerLimitText = ({ limits }: Endpoint): string =>
  `execution timeout ${limits.executionTimeoutMs / 1000} s, ttl ${
    limits.ttlMs / 1000
  } s, ${limits.maxAttempts} attempts, priority ` +
  `${limits.priority}, start in ${limits.startDelayMs / 1000} s`

const details = (endpoint: Endpoint): string =>
  Output.table([
    ["id", endpoint.id],
    ...(endpoint.release === undefined ? [] : [["release", releaseText(endpoint)]]),
    ["source", sourceText(endpoint)],
    [
      "workers",
      `${endpoint.workers.min} to ${endpoint.workers.max}, idle for at most ${endpoint.workers.idleTimeoutMs / 1000} s`
    ],
    ...(endpoint.workers.warm ?? []).map(({ end, min, start, timeZone }) =>
      ["warm", `${min} from "${start}" to "${end}" (${timeZone})`] as const
    ),
    ["scaling", scalerText(endpoint)],
    ["execution timeout", `${endpoint.executionTimeoutMs / 1000} s`],
    ["time to live", `${endpoint.ttlMs / 1000} s`],
    ["lease", `${endpoint.leaseMs / 1000} s`],
    ["attempts", String(endpoint.maxAttempts)],
    ["retention", `${endpoint.retentionMs / 1000} s`],
    ["retry", retryText(endpoint)],
    ["rate limit", limitText(endpoint)],
    ["concurrency", concurrencyText(endpoint)],
    ["callers may request", callerLimitText(endpoint)],
    [
      "variables",
      Object.entries(endpoint.env).map(([name, value]) => typeof value === "string" ? name : `${name} (secret ${value.secret})`)
        .join(", ") || "none"
    ],
    ["created", new Date(endpoint.createdAt).toISOString()]
  ])

const list = Command.make(
  "list",
  { json },
  Effect.fnUntraced(function*({ json }) {
    const { endpoints } = yield* call((api) => api.control.listEndpoints())
    yield* Output.print(json, endpoints, (all) =>
      all.length === 0
        ? "No endpoints yet. Create one: stint endpoints create NAME --handler FILE"
        : Output.table([
          ["ENDPOINT", "WORKERS", "SOURCE"],
          ...all.map((one) => [one.id, `${one.workers.min}-${one.workers.max}`, sourceText(one)])
        ]))
  })
).pipe(Command.withDescription("List the endpoints"), Command.withAlias("ls"))

const show = Command.make(
  "show",
  { endpoint, json },
  Effect.fnUntraced(function*({ endpoint, json }) {
    yield* Output.print(json, yield* call((api) => api.control.getEndpoint({ params: { endpoint } })), details)
  })
).pipe(Command.withDescription("Show one endpoint"))

/** The flags that change a setting, for the message when `update` has no flags. */
const FLAGS = Object.keys({ ...EndpointFlags.sourceFlags, ...EndpointFlags.settingFlags })
  .map((name) => `--${name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`)

/** Fails when the handler is not a file. Checks nothing if the platform is on another machine, because the platform reads the path there. */
const requireHandler = Effect.fnUntraced(function*(spec: EndpointSpec) {
  const { url } = yield* PlatformClient
  if (isLoopback(new URL(url).hostname)) yield* EndpointSpecs.requireHandler(spec)
})

/** Creates or changes an endpoint by making a release with a message. `expected`: the endpoint's current release. */
const deployWith = Effect.fnUntraced(function*(spec: EndpointSpec, message: string, expected: number | undefined) {
  const params = { endpoint: spec.id }
  const payload = { spec, message, ...(expected === undefined ? {} : { expected }) }
  yield* call((api) => api.releases.deployRelease({ params, payload }))
  return yield* call((api) => api.control.getEndpoint({ params }))
})

const create = Command.make(
  "create",
  {
    id: Argument.String("id").pipe(Argument.withDescription("Name of the new endpoint")),
    ...EndpointFlags.sourceFlags,
    ...EndpointFlags.settingFlags,
    message: messageFlag,
    json
  },
  Effect.fnUntraced(function*({ id, json, message, ...flags }) {
    const path = yield* Path.Path
    const source = yield* EndpointSpecs.toSource(id, (yield* EndpointFlags.sourceOf(flags)) ?? {}, path.resolve("."))
    const settings = yield* EndpointFlags.settingsOf(flags)
    const spec = yield* EndpointSpecs.decode({ id, source, ...EndpointFlags.specOf(settings, undefined) })
    yield* requireHandler(spec)
    const created = Option.isNone(message)
      ? yield* call((api) => api.control.createEndpoint({ payload: spec }))
      : yield* deployWith(spec, message.value, 0)
    yield* Output.print(
      json,
      created,
      (one) =>
        `Created "${one.id}".\nTry it: stint run ${one.id} --input '{}' --sync${
          one.source.type === "external" ? `\nStart a worker: env $(stint worker-env ${one.id}) PROGRAM` : ""
        }`
    )
  })
).pipe(
  Command.withDescription("Create an endpoint"),
  Command.withExamples([
    { command: "stint endpoints create hello --handler ./handler.ts", description: "Workers run a handler file" },
    { command: "stint endpoints create llm --command \"python3 handler.py\"", description: "Workers run any program" },
    {
      command: "stint endpoints create orders --handler ./orders.ts --env DATABASE_URL",
      description: "Workers get a variable of this shell; they inherit only a few variables of the platform"
    },
    {
      command: "stint endpoints create llm --handler ./llm.ts --secret HF_TOKEN=hf-token",
      description: "Workers get the value of a secret"
    },
    {
      command: "stint endpoints create llm --image registry.example.com/llm:1 --memory 8GiB --gpus 1",
      description: "Workers are Docker or Podman containers"
    },
    { command: "stint endpoints create gpu --external", description: "Workers join from other machines" }
  ])
)

/**
 * The limits for callers after a change to the defaults. A limit that equals its default changes with the default, because it was most likely derived
 * from it. Otherwise, a longer timeout would need two flags.
 */
const followedLimits = ({ executionTimeoutMs, limits, ttlMs }: Endpoint, { limits: given, plain }: EndpointFlags.Settings) => {
  const follow = (name: "executionTimeoutMs" | "ttlMs", now: number) => {
    const next = plain[name]
    return typeof next === "number" && given[name] === undefined && limits[name] === now ? { [name]: next } : {}
  }
  return { ...follow("executionTimeoutMs", executionTimeoutMs), ...follow("ttlMs", ttlMs) }
}

const update = Command.make(
  "update",
  {
    endpoint,
    ...EndpointFlags.sourceFlags,
    ...EndpointFlags.settingFlags,
    unsetEnv: Flag.String("unset-env").pipe(
      Flag.withDescription("Remove a variable of the workers; repeatable"),
      Flag.atLeast(0)
    ),
    noConcurrency: Flag.Boolean("no-concurrency").pipe(
      Flag.withDescription("Remove the limit of running jobs per key"),
      Flag.withDefault(false)
    ),
    noRateLimit: Flag.Boolean("no-rate-limit").pipe(Flag.withDescription("Remove the rate limit"), Flag.withDefault(false)),
    noWarm: Flag.Boolean("no-warm").pipe(Flag.withDescription("Remove the warm times"), Flag.withDefault(false)),
    noRetry: Flag.Boolean("no-retry").pipe(Flag.withDescription("Remove the retry rule"), Flag.withDefault(false)),
    message: messageFlag,
    json
  },
  Effect.fnUntraced(function*({ endpoint, json, message, noConcurrency, noRateLimit, noRetry, noWarm, unsetEnv, ...flags }) {
    const definition = yield* EndpointFlags.sourceOf(flags)
    const settings = yield* EndpointFlags.settingsOf(flags)
    const unchanged = definition === undefined && EndpointFlags.isNone(settings) && unsetEnv.length === 0 && !noRateLimit &&
      !noRetry && !noWarm && !noConcurrency
    if (unchanged) {
      return yield* new CliFailure({
        message: "No change was given.",
        hint: `Give at least one of ${
          [...FLAGS, "--unset-env", "--no-concurrency", "--no-rate-limit", "--no-retry", "--no-warm"].join(", ")
        }.`,
        code: "usage"
      })
    }
    const path = yield* Path.Path
    const now = yield* call((api) => api.control.getEndpoint({ params: { endpoint } }))
    const { concurrency, createdAt: _, rateLimit, retry, workers: { warm, ...workers }, ...kept } = now
    const keptWorkers = { ...workers, ...(warm === undefined || noWarm ? {} : { warm }) }
    const source = definition === undefined ? now.source : yield* EndpointSpecs.toSource(endpoint, definition, path.resolve("."))
    const env = Object.fromEntries(Object.entries(now.env).filter(([name]) => !unsetEnv.includes(name)))
    const spec = yield* EndpointSpecs.decode({
      ...kept,
      ...(concurrency === undefined || noConcurrency ? {} : { concurrency }),
      ...(rateLimit === undefined || noRateLimit ? {} : { rateLimit }),
      ...(retry === undefined || noRetry ? {} : { retry }),
      source,
      env,
      workers: keptWorkers,
      limits: { ...now.limits, ...followedLimits(now, settings) },
      ...EndpointFlags.specOf(settings, {
        workers: keptWorkers,
        limits: { ...now.limits, ...followedLimits(now, settings) },
        env,
        ...(retry === undefined || noRetry ? {} : { retry })
      })
    })
    if (definition !== undefined) yield* requireHandler(spec)
    const changed = Option.isNone(message)
      ? yield* call((api) => api.control.putEndpoint({ params: { endpoint }, payload: spec }))
      : yield* deployWith(spec, message.value, now.release)
    yield* Output.print(
      json,
      changed,
      (one) => `Changed "${one.id}". Jobs that were already submitted keep their settings.\n${details(one)}`
    )
  })
).pipe(
  Command.withDescription("Change some settings of an endpoint; the others do not change"),
  Command.withExamples([
    { command: "stint endpoints update hello --workers-max 0", description: "Pause it: jobs wait" },
    { command: "stint endpoints update hello --execution-timeout 30m --retention 7d", description: "For jobs from now on" },
    { command: "stint endpoints update hello --env LOG_LEVEL=debug --unset-env OLD", description: "Replaces its workers" }
  ])
)

const remove = Command.make(
  "delete",
  { endpoint, json },
  Effect.fnUntraced(function*({ endpoint, json }) {
    yield* call((api) => api.control.deleteEndpoint({ params: { endpoint } }))
    yield* Output.print(json, { deleted: endpoint }, () => `Deleted "${endpoint}".`)
  })
).pipe(Command.withDescription("Delete an endpoint that has no jobs left to run"))

/** `stint endpoints` and its subcommands. */
export const endpoints = Command.make("endpoints").pipe(
  Command.withDescription("Endpoints: list, create, show, update, delete"),
  Command.withSubcommands([list, create, show, update, remove])
)

/** `stint worker-env`. It prints the worker key intentionally. */
export const workerEnv = Command.make(
  "worker-env",
  {
    endpoint,
    prefix: Flag.Literals("prefix", ["PLATFORM_", "RUNPOD_"]).pipe(
      Flag.withDescription("Only the variables with this prefix (default: both sets)"),
      Flag.optional
    ),
    worker: Flag.String("worker").pipe(
      Flag.withDescription(
        "Id of the worker; the key is then valid for this worker only (default: a key that the endpoint's workers share)"
      ),
      Flag.withSchema(WorkerId),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ endpoint, json, prefix, worker }) {
    const { variables } = yield* call((api) =>
      api.control.workerEnv({
        params: { endpoint },
        query: {
          ...(Option.isSome(prefix) ? { prefix: prefix.value } : {}),
          ...(Option.isSome(worker) ? { worker: worker.value } : {})
        }
      })
    )
    yield* Output.print(
      json,
      variables,
      (variables) => Object.entries(variables).map(([name, value]) => Output.inline(`${name}=${value}`)).join("\n")
    )
  })
).pipe(
  Command.withDescription(
    "Print the environment that makes a process a worker of an endpoint. Each call prints a new worker id: run it once for each worker"
  ),
  Command.withExamples([
    {
      command: "env $(stint worker-env gpu --prefix RUNPOD_) python3 handler.py",
      description: "Start an existing worker from another terminal or machine"
    },
    {
      command: "env $(stint worker-env gpu --worker rack-7) python3 handler.py",
      description: "The same, with a key that no other worker can use"
    }
  ])
)
