/**
 * What a started worker is told about the platform. Composed by whoever runs the platform: only they know the address under which workers
 * reach it, and who issues their keys.
 */
import type { EndpointId } from "@stint/contract/Ids"
import * as Context from "effect/Context"
import type * as Redacted from "effect/Redacted"

export class WorkerConnection extends Context.Service<WorkerConnection, {
  /** Without a trailing slash: `http://127.0.0.1:4600`. */
  readonly baseUrl: string
  /** The key that opens the worker API of an endpoint, and nothing else. */
  readonly keyFor: (endpoint: EndpointId) => Redacted.Redacted
}>()("@stint/autoscaler/WorkerConnection") {}
