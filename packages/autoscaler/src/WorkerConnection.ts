/**
 * The platform's address and key for workers that the autoscaler starts. Provided by the program that composes the platform, which knows the
 * address and issues the keys.
 */
import type { EndpointId } from "@stint/contract/Ids"
import * as Context from "effect/Context"
import type * as Redacted from "effect/Redacted"

export class WorkerConnection extends Context.Service<WorkerConnection, {
  /** Without a trailing slash: `http://127.0.0.1:4600`. */
  readonly baseUrl: string
  /** The key for the worker API of one endpoint, valid only for the worker with this id. */
  readonly keyFor: (endpoint: EndpointId, worker: string) => Redacted.Redacted
}>()("@stint/autoscaler/WorkerConnection") {}
