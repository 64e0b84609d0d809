/**
 * How large a request may be, and how long one may wait. Defaults follow docs/spec/jobs-api.md#limits; they are settings, because a platform
 * on one's own machines may well allow more.
 */
import { HEARTBEAT_MILLIS } from "@stint/contract/JobEvents"
import * as Context from "effect/Context"

/** The sizes and the waits. */
export interface LimitSettings {
  /** Body of `/run`, in bytes. Default 10 MiB. */
  readonly runBytes: number
  /** Body of `/runsync`, in bytes. Default 20 MiB. */
  readonly runsyncBytes: number
  /** A worker's result, in bytes. Default 20 MiB (docs/spec/jobs-api.md#limits). Larger results fail their job. */
  readonly resultBytes: number
  /** One streamed chunk or one progress value, in bytes. Default 1 MiB. */
  readonly chunkBytes: number
  /** Bodies of the control API, in bytes. Default 1 MiB. */
  readonly controlBytes: number
  /** Whether large payloads have an object store to go to. Default: no. Says what a refusal advises. */
  readonly objectStore: boolean
  /** Body of a call that adds requests to a batch, in bytes. Default 10 MiB. See docs/spec/batches.md#limits. */
  readonly batchBytes: number
  /** Requests of one batch. Default 5,000. */
  readonly batchRequests: number
  /** Batches of an endpoint that have not ended, drafts included. Default 10. */
  readonly openBatches: number
  /**
   * Jobs of an endpoint that may wait when a batch is finalized, its own requests included. Default 50,000. What waits costs disk space and
   * little else; the limit is there to stop a loop that submits batches by mistake.
   */
  readonly batchQueued: number
  /** How long `/runsync` and `/status-sync` wait where the caller does not say. Default 90 s. */
  readonly syncWaitMs: number
  /**
   * How long `/runsync` may take before the head of its answer is sent, with the job's id, ahead of the waiting. A job that ends sooner is
   * answered in one piece, which costs less. Default 250 ms.
   */
  readonly headWaitMs: number
  /**
   * How long an OpenAI client's request may take before the head of its answer is sent. Until then a failure is answered with its own status,
   * after that with 200 and an error in the body. Default 45 s: proxies cut connections on which nothing comes after 60 s.
   */
  readonly openAiHeadWaitMs: number
  /** After so long without an event a reader of `/events` is sent a comment. Default 15 s: proxies cut silent connections after 30 s and more. */
  readonly heartbeatMs: number
  /** How long `/stream` waits where the caller does not say. Default 10 s. */
  readonly streamWaitMs: number
  /** The least and the most that a caller may ask to wait. Default 1 s and 300 s. */
  readonly minWaitMs: number
  readonly maxWaitMs: number
  /**
   * How long job-take and job-stop are held open. Longer means fewer idle requests; it must stay below the 90 s after which workers
   * give up on the answer, and a job in it. Default 60 s.
   */
  readonly workerWaitMs: number
  /**
   * How long a worker's call that is refused is held back. Existing SDKs take again at once and without end when a take fails
   * (docs/spec/worker-protocol.md#taking-a-job),
   * so that a worker with a wrong key would otherwise cost all of a core. Default 1 s.
   */
  readonly refusalWaitMs: number
}

const MEBIBYTE = 1024 * 1024

/** What is in force where nobody says otherwise. Each value's reason stands in {@link LimitSettings}. */
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
  streamWaitMs: 10_000,
  minWaitMs: 1_000,
  maxWaitMs: 300_000,
  workerWaitMs: 60_000,
  refusalWaitMs: 1_000
}

/** The limits in force. */
export const Limits: Context.Reference<LimitSettings> = Context.Reference<LimitSettings>("@stint/server/Limits", {
  defaultValue: () => defaults
})

/** The variables of the limits that an operator can raise. */
export type LimitVariable =
  | "STINT_LIMIT_RUN"
  | "STINT_LIMIT_RUNSYNC"
  | "STINT_LIMIT_RESULT"
  | "STINT_LIMIT_CHUNK"
  | "STINT_LIMIT_BATCH"

/**
 * What to do about a body over its limit: what whoever sent it can do, and what the platform's operator can. `moves`: what was sent is of the
 * kind that an object store takes off the database.
 */
export const remedyFor = (
  own: string,
  variable: LimitVariable,
  moves: boolean,
  { objectStore }: Pick<LimitSettings, "objectStore">
): string =>
  moves && !objectStore
    ? `${own} Or have the platform's operator give large payloads an object store (STINT_PAYLOADS), or raise the limit (${variable}).`
    : `${own} Or have the platform's operator raise the limit (${variable}).`

/** A `wait` in milliseconds, pulled into the allowed range; the default where there is none or it is no number. */
export const clampWait = (wait: string | undefined, fallback: number, limits: LimitSettings): number => {
  const asked = Number(wait)
  if (wait === undefined || wait.trim() === "" || Number.isNaN(asked)) return fallback
  return Math.min(limits.maxWaitMs, Math.max(limits.minWaitMs, Math.trunc(asked)))
}

/** Bytes in words: `10 MiB`, `1.5 KiB`, `1000 bytes`. */
export const bytesInWords = (bytes: number): string => {
  if (bytes >= MEBIBYTE) return `${Math.round((bytes / MEBIBYTE) * 10) / 10} MiB`
  return bytes >= 1024 ? `${Math.round((bytes / 1024) * 10) / 10} KiB` : `${bytes} bytes`
}
