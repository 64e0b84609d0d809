/**
 * The job that a handler runs for.
 */
import type { TakenJob } from "@stint/contract/WorkerProtocol"
import * as Context from "effect/Context"

/** A job as taken: the fields of the protocol, and any further fields that the platform sent (docs/spec/worker-protocol.md#the-taken-job). */
export interface ReceivedJob extends TakenJob {
  readonly [key: string]: unknown
}

/**
 * The current job: its id, its input as sent, and its `s3Config` if it has one.
 *
 * The runtime provides it to every handler, so it is not part of a handler's requirements.
 */
export class CurrentJob extends Context.Service<CurrentJob, ReceivedJob>()("@stint/worker/CurrentJob") {}
