/**
 * What nodes tell each other about workers immediately. Hints may be lost.
 */
import { EndpointId } from "@stint/contract/Ids"
import type { Nodes } from "@stint/store/Nodes"
import * as Schema from "effect/Schema"

/**
 * - `released`, with the job: the worker no longer runs it. A worker behind a load balancer takes a job from one node and delivers it to another.
 * - `leaving`, with `drain` or `stop`: an operator requested it.
 * - `exiting`: such a worker has announced its exit. Every node has the request, but only one receives the announcement.
 */
type Topic = "released" | "exiting" | "leaving"

const isEndpointId = Schema.is(EndpointId)

/** Tells the other nodes. `detail`: see {@link Topic}. */
export const publish = (
  nodes: Nodes["Service"] | undefined,
  topic: Topic,
  endpoint: EndpointId,
  worker: string,
  detail = ""
): void => nodes?.publish(topic, `${endpoint}\n${worker}\n${detail}`)

/** Calls `receive` for the hints of the other nodes. */
export const subscribe = (
  nodes: Nodes["Service"] | undefined,
  topic: Topic,
  receive: (endpoint: EndpointId, worker: string, detail: string) => void
): void =>
  nodes?.subscribe(topic, (hint) => {
    const [endpoint = "", worker = "", detail = ""] = hint?.key.split("\n") ?? []
    if (isEndpointId(endpoint)) receive(endpoint, worker, detail)
  })
