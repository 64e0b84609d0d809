/**
 * `stint endpoints` lists, creates, shows and deletes endpoints. `stint worker-env` prints the environment of an external worker.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { WorkerId } from "@stint/contract/Ids"
import { Argument, Command, Flag } from "effect/cli"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import { call } from "../client/PlatformClient.ts"
import { CliFailure } from "../CliFailure.ts"
import { type Definition, toSpec } from "../config/EndpointsFile.ts"
import * as Output from "../output/Output.ts"
import { endpoint, json } from "./SharedFlags.ts"
import { splitWords } from "./ShellWords.ts"

const sourceText = ({ source }: Endpoint): string =>
  source.type === "handler" ? source.file : source.type === "command" ? source.command.join(" ") : "external workers"

const scalerText = ({ scaler }: Endpoint): string =>
  scaler.type === "QUEUE_DELAY" ? `one more worker after ${scaler.value} s of waiting` : `one worker for ${scaler.value} jobs`

const limitText = ({ rateLimit }: Endpoint): string => {
  if (rateLimit === undefined) return "none"
  const open = rateLimit.concurrent === undefined ? "" : `, ${rateLimit.concurrent} open at once`
  return `${rateLimit.limit} calls of each kind in ${rateLimit.perMs / 1000} s per key${open}`
}

const details = (endpoint: Endpoint): string =>
  Output.table([
    ["id", endpoint.id],
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
    ["rate limit", limitText(endpoint)],
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

/** The variables of `--env` flags. */
const variablesOf = Effect.fnUntraced(function*(flags: ReadonlyArray<string>) {
  const variables: Record<string, string> = {}
  for (const flag of flags) {
    const at = flag.indexOf("=")
    const name = at === -1 ? flag : flag.slice(0, at)
    const value = at === -1
      ? yield* Config.option(Config.String(name)).pipe(Effect.orElseSucceed(() => Option.none<string>()))
      : Option.some(flag.slice(at + 1))
    if (Option.isNone(value)) {
      return yield* new CliFailure({
        message: `--env ${name}: this shell has no variable ${name}.`,
        hint: `Set the variable, or give its value: --env ${name}=VALUE`
      })
    }
    variables[name] = value.value
  }
  return variables
})

const create = Command.make(
  "create",
  {
    id: Argument.String("id").pipe(Argument.withDescription("Name of the new endpoint")),
    handler: Flag.String("handler").pipe(Flag.withDescription("A file that calls serverless.start"), Flag.optional),
    command: Flag.String("command").pipe(
      Flag.withDescription("A program that speaks the worker protocol, with its arguments"),
      Flag.optional
    ),
    cwd: Flag.String("cwd").pipe(
      Flag.withDescription("The working directory that all workers of --command share; by default, each has a folder of its own"),
      Flag.optional
    ),
    external: Flag.Boolean("external").pipe(
      Flag.withDescription("Workers are started elsewhere (see worker-env)"),
      Flag.withDefault(false)
    ),
    workersMin: Flag.Int("workers-min").pipe(Flag.withDescription("Workers that are always running"), Flag.optional),
    workersMax: Flag.Int("workers-max").pipe(Flag.withDescription("Maximum number of workers"), Flag.optional),
    idleTimeout: Flag.String("idle-timeout").pipe(
      Flag.withDescription("How long an idle worker is kept running, e.g. \"5 seconds\""),
      Flag.withSchema(Schema.DurationFromString),
      Flag.optional
    ),
    env: Flag.String("env").pipe(
      Flag.withDescription("A variable for the workers: NAME=VALUE, or NAME for the value in this shell; repeatable"),
      Flag.atLeast(0)
    ),
    json
  },
  Effect.fnUntraced(function*({ command, cwd, env, external, handler, id, idleTimeout, json, workersMax, workersMin }) {
    const path = yield* Path.Path
    const words = Option.map(command, splitWords)
    const [program, ...rest] = Option.getOrElse(words, (): ReadonlyArray<string> => [])
    if (Option.isSome(command) && program === undefined) {
      return yield* new CliFailure({ message: "The command is empty.", hint: "For example: --command \"python3 handler.py\"" })
    }
    const workers = {
      ...(Option.isSome(workersMin) ? { min: workersMin.value } : {}),
      ...(Option.isSome(workersMax) ? { max: workersMax.value } : {}),
      ...(Option.isSome(idleTimeout) ? { idleTimeout: idleTimeout.value } : {})
    }
    const definition: Definition = {
      ...(Option.isSome(handler) ? { handler: handler.value } : {}),
      ...(program === undefined ? {} : { command: [program, ...rest] }),
      ...(Option.isSome(cwd) ? { cwd: cwd.value } : {}),
      ...(external ? { external } : {}),
      ...(Object.keys(workers).length === 0 ? {} : { workers }),
      ...(env.length === 0 ? {} : { env: yield* variablesOf(env) })
    }
    const spec = yield* toSpec(id, definition, path.resolve("."))
    const created = yield* call((api) => api.control.createEndpoint({ payload: spec }))
    yield* Output.print(
      json,
      created,
      (one) =>
        `Created "${one.id}".\nTry it: stint run ${one.id} --input '{}' --sync${
          one.source.type === "external" ? `\nJoin a worker: stint worker-env ${one.id}` : ""
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
    { command: "stint endpoints create gpu --external", description: "Workers join from other machines" }
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
  Command.withDescription("Endpoints: list, create, show, delete"),
  Command.withSubcommands([list, create, show, remove])
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
      (variables) => Object.entries(variables).map(([name, value]) => `${name}=${value}`).join("\n")
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
