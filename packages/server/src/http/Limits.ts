/**
 * Maximum sizes of requests and maximum waits. Defaults follow docs/spec/jobs-api.md#limits. They are settings because a self-hosted platform
 * can often allow more.
 */
import { HEARTBEAT_MILLIS } from "@stint/contract/JobEvents"
import * as Context from "effect/Context"

/** Sizes and waits. */
export interface LimitSettings {
  /** Body of `/run`, in bytes. Default 10 MiB. */
  readonly runBytes: number
  /** Body of `/runsync`, in bytes. Default 20 MiB. */
  readonly runsyncBytes: number
  /** A worker's result, in bytes. Default 20 MiB (docs/spec/jobs-api.md#limits). Larger results fail their job. */
  readonly resultBytes: number
  /** One streamed chunk or one progress value, in bytes. Default 1 MiB. */
  readonly chunkBytes: number
  /** Body of a control API call, in bytes. Default 1 MiB. */
  readonly controlBytes: number
  /** Whether large payloads go to an object store. Default: no. Determines the advice in errors about large bodies. */
  readonly objectStore: boolean
  /** Body of a call that adds requests to a batch, in bytes. Default 10 MiB. See docs/spec/batches.md#limits. */
  readonly batchBytes: number
  /** Number of requests in one batch. Default 5,000. */
  readonly batchRequests: number
  /** Number of unfinished batches per key and endpoint, including drafts. Default 10. */
  readonly openBatches: number
  /**
   * Number of an endpoint's waiting jobs when a batch is finalized, including the batch's own requests. Default 50,000. Waiting jobs use
   * disk space and little else; the limit stops a loop that submits batches by mistake.
   */
  readonly batchQueued: number
  /** How long `/runsync` and `/status-sync` wait when the caller sends no `wait`. Default 90 s. */
  readonly syncWaitMs: number
  /**
   * How long `/runsync` waits before it sends the response headers, with the job's id, ahead of the body. If the job ends sooner, headers
   * and body are sent together, which costs less. Default 250 ms.
   */
  readonly headWaitMs: number
  /**
   * How long a request on the OpenAI route waits before its response headers are sent. Until then a failure is reported with its own
   * status; after that, with status 200 and an error in the body. Default 45 s: proxies close idle connections after 60 s.
   */
  readonly openAiHeadWaitMs: number
  /** After this time without an event, `/events` sends a comment. Default 15 s: proxies close idle connections after 30 s or more. */
  readonly heartbeatMs: number
  /** How long `/stream` waits when the caller sends no `wait`. Default 8 s: RunPod's Python client gives up on a response after 10 s. */
  readonly streamWaitMs: number
  /** The range of the `wait` that a caller may send. Default 1 s to 300 s. */
  readonly minWaitMs: number
  readonly maxWaitMs: number
  /**
   * How long job-take and job-stop are held open. A longer time means fewer idle requests. It must stay below 90 s: after that, workers
   * abandon the request and any job in its response. Default 60 s.
   */
  readonly workerWaitMs: number
  /**
   * How long the response to a rejected worker call is delayed. Existing SDKs retry a failed take immediately and indefinitely
   * (docs/spec/worker-protocol.md#taking-a-job), so without the delay a worker with a wrong key would use a whole core. Default 1 s.
   */
  readonly refusalWaitMs: number
  /**
   * Number of requests with wrong keys per minute and address; further ones get 429. Requests with valid keys are not limited by it.
   * Default 60: far more than a person mistypes, and few enough to keep the log readable.
   */
  readonly authFailures: number
}

const MEBIBYTE = 1024 * 1024

/** The default limits. {@link LimitSettings} explains each value. */
export const defaults: LimitSettings = {
  runBytes: 10 * MEBIBYTE,
  runsyncBytes: 20 * MEBIBYTE,
  resultBytes: 20 * MEBIBYTE,
  chunkBytes: MEBIBYTE,
  controlBytes: MEBIBYTE,
  objectStore: false,
  batchBytes: 10 * MEBIBYTE,
  batchRequests: 5_000,
  openBatches: 10,
  batchQueued: 50_000,
  syncWaitMs: 90_000,
  headWaitMs: 250,
  openAiHeadWaitMs: 45_000,
  heartbeatMs: HEARTBEAT_MILLIS,
  streamWaitMs: 8_000,
  minWaitMs: 1_000,
  maxWaitMs: 300_000,
  workerWaitMs: 60_000,
  refusalWaitMs: 1_000,
  authFailures: 60
}

/** The limits that apply. */
export const Limits: Context.Reference<LimitSettings> = Context.Reference<LimitSettings>("@stint/server/Limits", {
  defaultValue: () => defaults
})

/** The environment variables for the limits that an operator can raise. */
export type LimitVariable =
  | "STINT_LIMIT_RUN"
  | "STINT_LIMIT_RUNSYNC"
  | "STINT_LIMIT_RESULT"
  | "STINT_LIMIT_CHUNK"
  | "STINT_LIMIT_BATCH"

/**
 * The hint for a body that exceeds its limit: what the caller can do (`own`), and what the platform's operator can do. `moves`: whether an
 * object store would move this kind of payload out of the database.
 */
export const remedyFor = (
  own: string,
  variable: LimitVariable,
  moves: boolean,
  { objectStore }: Pick<LimitSettings, "objectStore">
): string =>
  moves && !objectStore
    ? `${own} The platform's operator can also configure an object store for large payloads (STINT_PAYLOADS) or raise the limit (${variable}).`
    : `${own} The platform's operator can also raise the limit (${variable}).`

/** A `wait` in milliseconds, clamped to the allowed range; missing and non-numeric values use the default. */
export const clampWait = (wait: string | undefined, fallback: number, limits: LimitSettings): number => {
  const asked = Number(wait)
  if (wait === undefined || wait.trim() === "" || Number.isNaN(asked)) return fallback
  return Math.min(limits.maxWaitMs, Math.max(limits.minWaitMs, Math.trunc(asked)))
}

/** Formats a number of bytes: `10 MiB`, `1.5 KiB`, `1000 bytes`. */
export const bytesInWords = (bytes: number): string => {
  if (bytes >= MEBIBYTE) return `${Math.round((bytes / MEBIBYTE) * 10) / 10} MiB`
  return bytes >= 1024 ? `${Math.round((bytes / 1024) * 10) / 10} KiB` : `${bytes} bytes`
}
