/**
 * The job that a handler is running, for handlers and the services they use.
 */
import type { TakenJob } from "@stint/contract/WorkerProtocol"
import * as Context from "effect/Context"

/** A job as it was taken: the fields of the protocol, and whatever else the platform put there (docs/spec/worker-protocol.md#the-taken-job). */
export interface ReceivedJob extends TakenJob {
  readonly [key: string]: unknown
}

/**
 * The job at hand: its id, its input as it was sent, its `s3Config` if it came with one.
 *
 * The runtime provides it to every handler, so it never shows in a handler's own requirements.
 */
export class CurrentJob extends Context.Service<CurrentJob, ReceivedJob>()("@stint/worker/CurrentJob") {}
