/**
 * The operations on agents (docs/operations/agents.md): the operators' operations, and the calls that agents make.
 *
 * ```
 *   /api/v1/agents                       GET    all agents, and the workers that they run
 *   /api/v1/agents/{agent}/drain         POST   starts no more workers there; its workers finish their jobs and exit
 *   /api/v1/agents/{agent}/resume        POST   starts workers there again
 *   /api/v1/agents/{agent}/report        POST   an agent's report; returns the orders
 *   /api/v1/agents/{agent}/changes       GET    waits until the orders have changed
 *   /api/v1/agents/{agent}/code/{hash}   GET    the code of a release
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { AgentAuthorization, ControlAuthorization } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { AgentNotFound, bodyErrors, Conflict, InvalidRequest, Unavailable } from "../Problem.ts"
import { Agent, AgentChanges, AgentCode, AgentList, AgentOrders, AgentReport } from "./Agent.ts"
import { Audited } from "./Audit.ts"

const agent = Schema.String.annotate({ description: "The agent's name." })

/** The operations for operators. */
export class AgentsApi extends HttpApiGroup.make("agents")
  .add(
    HttpApiEndpoint.get("listAgents", "/agents", { success: AgentList }).annotateMerge(operationDocs({
      summary: "List agents",
      description:
        "Lists the agents of this node: their capacity, their workers and whether they are connected. An agent that has not called for a day is " +
        "left out. Requires the scope `deploy` or `admin`."
    })),
    HttpApiEndpoint.post("drainAgent", "/agents/:agent/drain", { params: { agent }, success: Agent, error: AgentNotFound })
      .annotateMerge(operationDocs({
        summary: "Drain an agent",
        description:
          "Starts no more workers on the agent's machine. Its workers finish their jobs and exit. The agent stores this, so a restart of the " +
          "platform or of the agent does not undo it."
      })),
    HttpApiEndpoint.post("resumeAgent", "/agents/:agent/resume", { params: { agent }, success: Agent, error: AgentNotFound })
      .annotateMerge(operationDocs({
        summary: "Resume an agent",
        description: "Starts workers on the agent's machine again."
      }))
  )
  .middleware(ControlAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Agents", description: "Machines that start workers for the platform" }))
{}

/** The calls of agents. */
export class AgentCallsApi extends HttpApiGroup.make("agentCalls")
  .add(
    HttpApiEndpoint.post("reportAgent", "/agents/:agent/report", {
      params: { agent },
      payload: AgentReport,
      success: AgentOrders,
      error: [InvalidRequest, ...bodyErrors, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Report an agent's state",
      description:
        "Called by `stint agent`. Contains the capacity of its machine and the state of every worker. Returns what each of these workers " +
        "should do. With a report without an epoch, the agent joins. Returns 409 if the epoch is over, if a newer report has arrived, or if " +
        "another connected agent has this name."
    })).annotate(Audited, false),
    HttpApiEndpoint.get("awaitChanges", "/agents/:agent/changes", {
      params: { agent },
      query: {
        epoch: Schema.String.annotate({ description: "The epoch of the connection." }),
        revision: Schema.String.check(Schema.isPattern(/^\d{1,15}$/, { message: "Expected a number" })).annotate({
          description: "The revision of the last orders."
        })
      },
      success: AgentChanges,
      error: [InvalidRequest, Conflict]
    }).annotateMerge(operationDocs({
      summary: "Wait for new orders",
      description: "Returns once the orders have a newer revision, or after 3 s. Returns 409 if the epoch is over."
    })),
    HttpApiEndpoint.get("getAgentCode", "/agents/:agent/code/:hash", {
      params: { agent, hash: Schema.String.annotate({ description: "The hash of the code." }) },
      success: AgentCode,
      error: [InvalidRequest, Conflict]
    }).annotateMerge(operationDocs({
      summary: "Download the code of a release",
      description:
        "Returns the files of the code, base64-encoded. Returns 409 if the agent has no worker to start with this code, or if this node does not have it."
    }))
  )
  .middleware(AgentAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Calls of agents", description: "Only `stint agent` calls these" }))
{}
