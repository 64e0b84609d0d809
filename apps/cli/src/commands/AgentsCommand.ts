/**
 * `stint agents` lists the machines that start workers for the platform, and drains them.
 */
import type { Agent, AgentList } from "@stint/contract/Agent"
import { labelText } from "@stint/contract/Placement"
import { Argument, Command } from "effect/cli"
import * as Effect from "effect/Effect"
import { call } from "../client/PlatformClient.ts"
import * as Output from "../output/Output.ts"
import { json } from "./SharedFlags.ts"

const name = Argument.String("agent").pipe(Argument.withDescription("Name of the agent"))

const timeText = (millis: number): string => new Date(millis).toISOString().slice(0, 19).replace("T", " ")

const gigabytes = (bytes: number): string => String(Math.round(bytes / 1024 ** 3 * 10) / 10)

const row = ({ capacity, labels, lastSeenAt, name, state, supports, version, workers }: Agent): ReadonlyArray<string> => [
  Output.inline(name),
  state,
  `${workers.length}/${capacity.workers}`,
  String(capacity.cpus),
  gigabytes(capacity.memoryBytes),
  String(capacity.gpus),
  supports.join(", "),
  Output.inline(labelText(labels)) || "-",
  Output.inline(version),
  timeText(lastSeenAt)
]

const HEAD = ["AGENT", "STATE", "WORKERS", "CPUS", "MEMORY (GiB)", "GPUS", "RUNS", "LABELS", "VERSION", "LAST CALL (UTC)"]

const workersOf = ({ name, workers }: Agent): ReadonlyArray<ReadonlyArray<string>> =>
  workers.map(({ endpoint, id, state }) => [Output.inline(id), Output.inline(endpoint), state, Output.inline(name)])

const format = ({ agents, local }: AgentList): string => {
  const own = `This platform's machine runs ${local.workers}${local.limit === null ? "" : ` of at most ${local.limit}`} workers.`
  if (agents.length === 0) {
    return `No agent has joined. ${own}\nOn another machine: stint agent --join URL --token T, with a key that this command creates: stint keys create NAME --scope agent --all-endpoints`
  }
  const workers = agents.flatMap(workersOf)
  return [
    Output.table([HEAD, ...agents.map(row)]),
    ...(workers.length === 0 ? [] : [Output.table([["WORKER", "ENDPOINT", "STATE", "AGENT"], ...workers])]),
    own
  ].join("\n\n")
}

const left = ({ name, workers }: Agent): string =>
  workers.length === 0
    ? `Agent ${Output.inline(name)} receives no more workers, and runs none.`
    : `Agent ${Output.inline(name)} receives no more workers. ${workers.length} ${
      workers.length === 1 ? "worker finishes its jobs and exits" : "workers finish their jobs and exit"
    }: stint agents`

const drain = Command.make(
  "drain",
  { agent: name, json },
  Effect.fnUntraced(function*({ agent, json }) {
    yield* Output.print(json, yield* call((api) => api.agents.drainAgent({ params: { agent } })), left)
  })
).pipe(Command.withDescription("Start no more workers on an agent's machine; its workers finish their jobs and exit"))

const resume = Command.make(
  "resume",
  { agent: name, json },
  Effect.fnUntraced(function*({ agent, json }) {
    yield* Output.print(
      json,
      yield* call((api) => api.agents.resumeAgent({ params: { agent } })),
      ({ name }) => `Agent ${Output.inline(name)} receives workers again.`
    )
  })
).pipe(Command.withDescription("Start workers on an agent's machine again"))

/** `stint agents`. */
export const agents = Command.make(
  "agents",
  { json },
  Effect.fnUntraced(function*({ json }) {
    yield* Output.print(json, yield* call((api) => api.agents.listAgents()), format)
  })
).pipe(
  Command.withDescription("List the machines that start workers for the platform; times are UTC"),
  Command.withSubcommands([drain, resume])
)
