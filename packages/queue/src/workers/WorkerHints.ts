/**
 * What nodes tell each other about workers at once. Hints may be lost.
 */
import { EndpointId } from "@stint/contract/Ids"
import type { Nodes } from "@stint/store/Nodes"
import * as Schema from "effect/Schema"

export interface WorkerHints {
  /** The worker no longer runs the job. A worker behind a load balancer takes a job from one node and delivers it to another. */
  readonly released: (endpoint: EndpointId, worker: string, job: string) => void
  /** A worker that an operator drains or stops has announced its exit. Every node has the request, but only one receives the announcement. */
  readonly exiting: (endpoint: EndpointId, worker: string) => void
}

const isEndpointId = Schema.is(EndpointId)

/** `receive` is called for the hints of the other nodes. */
export const make = (nodes: Nodes["Service"] | undefined, receive: WorkerHints): WorkerHints => {
  for (const topic of ["released", "exiting"] as const) {
    nodes?.subscribe(topic, (hint) => {
      const [endpoint = "", worker = "", job = ""] = hint?.key.split("\n") ?? []
      if (isEndpointId(endpoint)) receive[topic](endpoint, worker, job)
    })
  }
  return {
    released: (endpoint, worker, job) => nodes?.publish("released", `${endpoint}\n${worker}\n${job}`),
    exiting: (endpoint, worker) => nodes?.publish("exiting", `${endpoint}\n${worker}`)
  }
}
