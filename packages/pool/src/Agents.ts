/**
 * The platform's agents, for the HTTP API. `@stint/pool-agent` implements this service; a program that composes a platform without it has
 * none.
 */
import type { KeyEndpoints } from "@stint/contract/AccessKey"
import type { Agent, AgentChanges, AgentCode, AgentList, AgentOrders, AgentReport } from "@stint/contract/Agent"
import type { EndpointId, WorkerId } from "@stint/contract/Ids"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/** An agent's call was refused. */
export class AgentRefused extends Schema.TaggedError<AgentRefused>()("AgentRefused", {
  /** As a sentence. */
  problem: Schema.String,
  /** The remedy, as a sentence. */
  hint: Schema.String
}) {}

/** A worker of an agent. */
export interface AgentWorker {
  readonly id: WorkerId
  readonly endpoint: EndpointId
}

/** See {@link Agents}. */
export interface AgentsService {
  readonly list: Effect.Effect<AgentList>
  /** Starts no more workers there. Returns the agent and its workers, which the caller drains. None if the platform does not know the agent. */
  readonly drain: (
    name: string
  ) => Effect.Effect<Option.Option<{ readonly agent: Agent; readonly workers: ReadonlyArray<AgentWorker> }>>
  readonly resume: (name: string) => Effect.Effect<Option.Option<Agent>>
  /** Processes a report. `leaving`: the workers of an agent that has begun to stop, which the caller drains. */
  readonly report: (
    name: string,
    key: { readonly id: string; readonly endpoints: KeyEndpoints | ReadonlyArray<string> },
    report: AgentReport
  ) => Effect.Effect<{ readonly orders: AgentOrders; readonly leaving: ReadonlyArray<AgentWorker> }, AgentRefused>
  /** Waits until the orders differ from `revision`. */
  readonly changes: (name: string, key: string, epoch: string, revision: number) => Effect.Effect<AgentChanges, AgentRefused>
  /** The files of the frozen code for a worker that the agent must start. Refused for any other code, even if the platform has it. */
  readonly code: (name: string, key: string, hash: string) => Effect.Effect<AgentCode, AgentRefused>
  /** Completes every wait of `changes`, before the server closes. */
  readonly completeWaits: Effect.Effect<void>
}

const none = new AgentRefused({
  problem: "This platform accepts no agents.",
  hint: "Join a platform that `stint serve` runs."
})

/** Default: no agents. */
export const Agents: Context.Reference<AgentsService> = Context.Reference<AgentsService>("@stint/pool/Agents", {
  defaultValue: () => ({
    list: Effect.succeed({ agents: [], local: { workers: 0, limit: null, labels: {} } }),
    drain: () => Effect.succeedNone,
    resume: () => Effect.succeedNone,
    report: () => Effect.fail(none),
    changes: () => Effect.fail(none),
    code: () => Effect.fail(none),
    completeWaits: Effect.void
  })
})
