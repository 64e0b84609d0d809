/**
 * The errors of operations on runs.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { Conflict, InvalidRequest, problemMembers } from "@stint/contract/Problem"
import type { NodeUnknown } from "@stint/queue/RunQueue"
import { excerpt } from "../http/ProblemJson.ts"

/** How many nodes an error lists. */
const MOST_NODES = 20

/** 409 for a job without a journal. */
export const notARun = (id: string, endpoint: EndpointId): Conflict =>
  new Conflict(problemMembers(
    `Job "${excerpt(id)}" is not a run of a pipeline, or no worker has started it yet.`,
    `Read the job: GET /v2/${endpoint}/status/${excerpt(id)}?explain. Steps exist only on endpoints whose worker runs a pipeline.`
  ))

/** 400 for a node that the pipeline does not have; 409 when the job is not a run. */
export const nodeUnknown = ({ id, node, nodes }: NodeUnknown, endpoint: EndpointId): Conflict | InvalidRequest => {
  if (nodes.length === 0) {
    return new Conflict(problemMembers(
      `Job "${excerpt(id)}" is not a run of a pipeline, so it has no node "${excerpt(node)}".`,
      `Retry the whole job: POST /v2/${endpoint}/retry/${excerpt(id)}, without ?from.`
    ))
  }
  const known = `${nodes.slice(0, MOST_NODES).map(excerpt).join(", ")}${nodes.length > MOST_NODES ? ", and more" : ""}`
  return new InvalidRequest({
    ...problemMembers(`The pipeline of run "${excerpt(id)}" has no node "${excerpt(node)}".`, `Pass one of its nodes: ${known}.`),
    errors: [{ path: ["from"], message: "expected the address of a node of the pipeline" }]
  })
}
