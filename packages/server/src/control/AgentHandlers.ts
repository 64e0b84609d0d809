/**
 * The control API for agents, and the calls that agents make.
 */
import { AgentName, AgentOrders, AgentReport, MAX_REPORT_BYTES } from "@stint/contract/Agent"
import { Api } from "@stint/contract/Api"
import { CurrentAgentKey } from "@stint/contract/Authorization"
import { AgentNotFound, Conflict, InvalidRequest, problemMembers } from "@stint/contract/Problem"
import { type AgentRefused, Agents, type AgentWorker } from "@stint/pool/Agents"
import { JobQueue } from "@stint/queue/JobQueue"
import * as Effect from "effect/Effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { excerpt } from "../http/ProblemJson.ts"
import { decoder, parseJson, readText } from "../http/RequestBody.ts"

const reportHint = "Only `stint agent` sends reports. Use the same version of it as the platform's."

const decodeReport = decoder(AgentReport, reportHint)
const encodeOrders = Schema.encodeSync(AgentOrders)
const isName = Schema.is(AgentName)

const toConflict = ({ hint, problem }: AgentRefused) => new Conflict(problemMembers(problem, hint))

const notFound = (name: string) =>
  new AgentNotFound(
    problemMembers(
      `No agent "${excerpt(name)}" is connected to this platform.`,
      "`stint agents` lists the agents and their states. A lost one can be drained when it is back."
    )
  )

const checkName = (name: string) =>
  isName(name) ? Effect.void : Effect.fail(
    new InvalidRequest(problemMembers(
      `"${excerpt(name)}" is not an agent's name.`,
      "Use 1 to 63 letters, digits, ., - or _, starting with a letter or a digit: stint agent --name NAME"
    ))
  )

/** The operators' operations. */
export const layerOperators = HttpApiBuilder.group(
  Api,
  "agents",
  Effect.fnUntraced(function*(handlers) {
    const agents = yield* Agents
    const queue = yield* JobQueue
    return handlers
      .handle("listAgents", () => agents.list)
      .handle(
        "drainAgent",
        Effect.fnUntraced(function*({ params }) {
          const found = yield* agents.drain(params.agent)
          if (Option.isNone(found)) return yield* notFound(params.agent)
          yield* drainAll(queue, found.value.workers)
          return found.value.agent
        })
      )
      .handle(
        "resumeAgent",
        Effect.fnUntraced(function*({ params }) {
          const found = yield* agents.resume(params.agent)
          return Option.isNone(found) ? yield* notFound(params.agent) : found.value
        })
      )
  })
)

/** The workers finish their jobs and receive no others, so the autoscaler then requests their exit. */
const drainAll = (queue: JobQueue["Service"], workers: ReadonlyArray<AgentWorker>) =>
  Effect.forEach(workers, ({ endpoint, id }) => queue.drainWorker(endpoint, id), { discard: true })

/** The calls of agents. */
export const layerCalls = HttpApiBuilder.group(
  Api,
  "agentCalls",
  Effect.fnUntraced(function*(handlers) {
    const agents = yield* Agents
    const queue = yield* JobQueue
    return handlers
      .handleRaw(
        "reportAgent",
        Effect.fnUntraced(function*({ params, request }) {
          const key = yield* CurrentAgentKey
          yield* checkName(params.agent)
          const text = yield* readText(request, MAX_REPORT_BYTES, "Report fewer workers or lines at a time.")
          const report = yield* Effect.flatMap(parseJson(text, reportHint), decodeReport)
          const { leaving, orders } = yield* Effect.mapError(agents.report(params.agent, key, report), toConflict)
          yield* drainAll(queue, leaving)
          return HttpServerResponse.jsonUnsafe(encodeOrders(orders))
        })
      )
      .handle(
        "awaitChanges",
        Effect.fnUntraced(function*({ params, query }) {
          const { id } = yield* CurrentAgentKey
          yield* checkName(params.agent)
          return yield* Effect.mapError(agents.changes(params.agent, id, query.epoch, Number(query.revision)), toConflict)
        })
      )
      .handle(
        "getAgentCode",
        Effect.fnUntraced(function*({ params }) {
          const { id } = yield* CurrentAgentKey
          yield* checkName(params.agent)
          return yield* Effect.mapError(agents.code(params.agent, id, params.hash), toConflict)
        })
      )
  })
)
