/**
 * The errors of operations on runs.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { Conflict, InsufficientStorage, InvalidRequest, problemMembers } from "@stint/contract/Problem"
import type { NodeUnknown, TooManyEvents } from "@stint/queue/RunQueue"
import { MAX_KEPT_EVENT_BYTES, MAX_KEPT_EVENTS } from "@stint/store/RunStore"
import { excerpt } from "../http/ProblemJson.ts"

/** How many nodes an error lists. */
const MOST_NODES = 20

/** 409 for a job without a journal. */
export const notARun = (id: string, endpoint: EndpointId): Conflict =>
  new Conflict(problemMembers(
    `Job "${excerpt(id)}" is not a run of a pipeline, or no worker has started it yet.`,
    `Read the job: GET /v2/${endpoint}/status/${excerpt(id)}?explain. Steps exist only on endpoints whose worker runs a pipeline.`
  ))

/** 507: space becomes free only when runs wait for the kept events, or when the events expire. */
export const tooManyEvents = ({ endpoint }: TooManyEvents): InsufficientStorage =>
  new InsufficientStorage(problemMembers(
    `No run of "${
      excerpt(endpoint)
    }" waits for this event, and the endpoint has reached its limit of events that are kept for later runs: ` +
      `${MAX_KEPT_EVENTS.toLocaleString("en")} events, or ${
        MAX_KEPT_EVENT_BYTES / 1024 / 1024
      } MiB of their data. The event was not stored.`,
    "Compare the event's name and key with what the runs wait for: GET /v2/ENDPOINT/steps/RUN. Kept events are removed when a run waits for them, or " +
      "after their ttlMs: use a short ttlMs for events that may be lost. Send this event again when its run waits for it."
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
