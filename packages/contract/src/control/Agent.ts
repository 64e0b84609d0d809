/**
 * Agents: programs on other machines that start workers for the platform (docs/operations/agents.md).
 *
 * ```
 *   agent                                                    platform
 *     | POST report: what it has, and its workers                |
 *     |   <- orders: what each worker should do                  |
 *     | GET changes?epoch&revision  (long poll)                  |
 *     |   <- the orders have changed: report again               |
 *     | GET code/{hash}                                          |   once for each release
 * ```
 *
 * A report and its orders describe everything, so losing or repeating one changes nothing. A connection has an epoch, which ends when its lease
 * expires (docs/decisions/0076-agents.md).
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { EndpointId, WorkerId } from "../Ids.ts"
import { PrintableText } from "../PrintableText.ts"
import { ImagePullProgress } from "../workers/ImagePull.ts"
import { Endpoint } from "./Endpoint.ts"
import { Labels } from "./Placement.ts"

/** The version of the messages. The platform and its agents must have the same one. */
export const AGENT_PROTOCOL = 1

/** The maximum number of workers of an agent. Bounds the size of a report. */
export const MAX_AGENT_WORKERS = 256

/** The maximum number of lines in a report, over all workers. */
export const MAX_REPORT_LINES = 400

/** The maximum size of a report, in bytes. */
export const MAX_REPORT_BYTES = 1024 * 1024

/** How long `changes` waits, in milliseconds. */
export const CHANGES_WAIT_MILLIS = 3_000

/** An agent's name: 1 to 63 letters, digits, `.`, `-` or `_`, starting with a letter or a digit, as in a host name. */
export const AgentName = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/, {
    message: "an agent's name is 1 to 63 letters, digits, ., - or _, and starts with a letter or a digit"
  })
).pipe(Schema.brand("AgentName"))
export type AgentName = typeof AgentName.Type

const Text = (maximum: number) => Schema.String.check(Schema.isMaxLength(maximum))

const Count = Schema.Natural

/** A machine's capacity. */
export const AgentCapacity = Schema.Struct({
  /** The maximum number of workers. */
  workers: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_AGENT_WORKERS })),
  cpus: Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 65_536 })),
  memoryBytes: Schema.Natural,
  gpus: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 64 }))
})
export type AgentCapacity = typeof AgentCapacity.Type

/** The types of sources whose workers a machine can start. */
const SupportedSources = Schema.Array(Schema.Literals(["handler", "command", "container"])).check(Schema.isMaxLength(3))

const VolumeNames = Schema.Array(PrintableText.check(Schema.isMaxLength(256))).check(Schema.isMaxLength(100))

/** Why a worker could not be started. `reason` is the reason of the pool's error; `subject` is the error's path, volume or source. */
export const AgentStartFailure = Schema.Struct({
  reason: Schema.Literals(["SpawnFailed", "NoCapacity", "VolumeMissing", "Unsupported", "PoolUnavailable"]),
  subject: Text(4_096),
  problem: Text(8_192),
  hint: Text(4_096)
})
export type AgentStartFailure = typeof AgentStartFailure.Type

/** How a worker ended. */
const AgentExit = Schema.Union([
  Schema.Struct({ _tag: Schema.tag("Exited"), code: Schema.Int }),
  Schema.Struct({ _tag: Schema.tag("Killed"), signal: Text(64), outOfMemory: Schema.Boolean }),
  Schema.Struct({ _tag: Schema.tag("Lost"), reason: Text(4_096) })
])

/** 300 processors for a year. Stores add up the times of many workers. */
const MAX_CPU_MILLIS = 1e13

/** A worker's reservation on its machine. */
const AgentReservation = Schema.Struct({
  gpus: Schema.Union([Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 64 })), Schema.Literal("all")]),
  cpus: Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 65_536 })),
  memoryBytes: Schema.Natural
})

/** A worker of an agent. */
export const AgentWorkerReport = Schema.Struct({
  id: WorkerId,
  endpoint: EndpointId,
  state: Schema.Literals(["starting", "running", "ended"]),
  /** Present while its image is being pulled. Agents of earlier versions do not report it. */
  pull: Schema.optionalKey(ImagePullProgress),
  /** Set when the worker could not be started. */
  failure: Schema.optionalKey(AgentStartFailure),
  /** Set when the worker has ended. */
  exit: Schema.optionalKey(AgentExit),
  /** The CPU time so far, in milliseconds. */
  cpuMs: Schema.optionalKey(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: MAX_CPU_MILLIS }))),
  /** The memory that it and its children occupy, if the agent's pool can measure it. */
  memoryBytes: Schema.optionalKey(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))),
  /** Its reservation, for a platform that has not started it. Absent if its endpoint sets no limits. */
  reserved: Schema.optionalKey(AgentReservation),
  /** The number of the first element of `lines`; lines are counted from 0 in each run of the agent. */
  from: Count,
  /** The printed lines that the platform has not confirmed: `o` or `e` for stdout or stderr, then the line. */
  lines: Schema.Array(Schema.String),
  /** The number of lines that the worker has printed. */
  printed: Count
})
export type AgentWorkerReport = typeof AgentWorkerReport.Type

/** A report. */
export const AgentReport = Schema.Struct({
  protocol: Schema.Int,
  /** The version of the agent's package. */
  version: PrintableText.check(Schema.isMaxLength(100)),
  /** Identifies the agent's data folder. */
  instance: PrintableText.check(Schema.isBetweenLength(1, 64)),
  /** Identifies the agent's process. */
  run: PrintableText.check(Schema.isBetweenLength(1, 64)),
  /** The epoch of the connection. Absent in the first report, with which the agent joins. */
  epoch: Schema.optionalKey(Text(100)),
  /** Increases with each report from the process. */
  number: Count,
  /** The number of the last report whose response the agent has received. Absent before the first one. */
  answered: Schema.optionalKey(Count),
  capacity: AgentCapacity,
  supports: SupportedSources,
  volumes: VolumeNames,
  /** The machine's labels. Agents of earlier versions send none. */
  labels: Labels.pipe(Schema.withDecodingDefaultKey(Effect.succeed({}))),
  /** Whether an operator has drained this machine. The agent stores this. */
  isDrained: Schema.Boolean,
  /** Whether the agent is about to stop. */
  isLeaving: Schema.Boolean,
  workers: Schema.Array(AgentWorkerReport).check(Schema.isMaxLength(2 * MAX_AGENT_WORKERS))
})
export type AgentReport = typeof AgentReport.Type

/** A worker to start. Its variables contain secret values. */
export const AgentStart = Schema.Struct({
  endpoint: Endpoint,
  variables: Schema.Record(Schema.String, Schema.String),
  code: Schema.optionalKey(Schema.String)
})
export type AgentStart = typeof AgentStart.Type

/** The platform's order for a worker. */
export const AgentOrder = Schema.Struct({
  id: WorkerId,
  /** `run`: it should run. `drain`: it should exit. `kill`: it must not run. `forget`: the platform knows that it has ended. */
  wish: Schema.Literals(["run", "drain", "kill", "forget"]),
  /** The number of lines that the platform has accepted. */
  taken: Count,
  /** Present until a report contains the worker. */
  start: Schema.optionalKey(AgentStart)
})
export type AgentOrder = typeof AgentOrder.Type

/** The response to a report: all of the platform's orders. */
export const AgentOrders = Schema.Struct({
  /** Identifies the process of the platform. */
  platform: Schema.String,
  epoch: Schema.String,
  /** How long the epoch lasts after a report, in milliseconds. */
  leaseMs: Schema.Int,
  /** Changes with the orders. */
  revision: Schema.Int,
  /** The platform's time, in milliseconds since 1970. */
  at: Schema.Int,
  /** Whether an operator has drained this machine. */
  isDrained: Schema.Boolean,
  workers: Schema.Array(AgentOrder)
})
export type AgentOrders = typeof AgentOrders.Type

/** The response to `changes`. */
export const AgentChanges = Schema.Struct({ revision: Schema.Int })
export type AgentChanges = typeof AgentChanges.Type

/** The files of a release's code, by name. */
export const AgentCode = Schema.Struct({ files: Schema.Record(Schema.String, Schema.Uint8ArrayFromBase64) })
export type AgentCode = typeof AgentCode.Type

/** An agent, as an operator sees it. Times are in milliseconds since 1970. */
export const Agent = Schema.Struct({
  name: AgentName,
  /** `connected`: it receives workers. `draining`: it receives none. `lost`: it does not call. */
  state: Schema.Literals(["connected", "draining", "lost"]),
  /** When the state began. */
  since: Schema.Int,
  lastSeenAt: Schema.Int,
  version: Schema.String,
  capacity: AgentCapacity,
  supports: SupportedSources,
  /** The names of its volumes. */
  volumes: VolumeNames,
  /** Its machine's labels. */
  labels: Labels,
  /** The id of its key. */
  key: Schema.String,
  /** The endpoints whose workers it may run. */
  endpoints: Schema.Union([Schema.Literal("all"), Schema.Array(Schema.String)]),
  workers: Schema.Array(Schema.Struct({
    id: WorkerId,
    endpoint: EndpointId,
    state: Schema.Literals(["starting", "running", "draining", "ending"])
  }))
})
export type Agent = typeof Agent.Type

/** All agents, and the platform's own machine. */
export const AgentList = Schema.Struct({
  agents: Schema.Array(Agent),
  local: Schema.Struct({
    /** Its workers. */
    workers: Count,
    /** The maximum number of its workers; null: no limit. */
    limit: Schema.NullOr(Count),
    labels: Labels
  })
})
export type AgentList = typeof AgentList.Type
