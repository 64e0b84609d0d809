/**
 * The messages between workers and the platform, and a worker's environment
 * (docs/spec/worker-protocol.md, docs/spec/environment.md#set-by-the-platform).
 *
 * ```
 *  worker                                      platform
 *    | GET  job-take/{worker}  (long poll)        |   200 job | 204 nothing | 429 wait
 *    | <----------------------------------------- |
 *    | POST job-done/{worker}/{job}  progress*    |   {"status":"IN_PROGRESS","output":...}
 *    | POST job-stream/{worker}/{job} chunk*      |   {"output":...}
 *    | POST job-done/{worker}/{job}  result       |   {"output":...,"error":...,"stopPod":true}
 *    | POST job-done-batch/{worker}  results      |   [{"id":...,"output":...}, ...]: in one turn of the event loop
 *    |                                            |
 *    | GET  job-stop/{worker}  (long poll)        |   200 {"jobsToStop":[...]} | 204 nothing
 *    | GET|POST ping/{worker}   every interval    |   renews the leases of the listed jobs
 * ```
 *
 * Every worker loads this module, so it contains only constants and small Schemas, and no HTTP code.
 */
import * as Schema from "effect/Schema"

/** The prefixes of worker variables: ours and RunPod's, which existing workers read (docs/spec/rulings.md#prefix). */
export const ENV_PREFIXES = ["PLATFORM_", "RUNPOD_"] as const
/** One of {@link ENV_PREFIXES}. */
export type EnvPrefix = (typeof ENV_PREFIXES)[number]

/** The names of the variables that the platform sets in a worker, without their prefix (docs/spec/environment.md#set-by-the-platform). */
export const WorkerVariable = {
  podId: "POD_ID",
  podHostname: "POD_HOSTNAME",
  endpointId: "ENDPOINT_ID",
  apiKey: "AI_API_KEY",
  getJob: "WEBHOOK_GET_JOB",
  ping: "WEBHOOK_PING",
  postOutput: "WEBHOOK_POST_OUTPUT",
  postStream: "WEBHOOK_POST_STREAM",
  pingInterval: "PING_INTERVAL"
} as const

/**
 * The key of the symbol under which a process finds, in `globalThis`, the environment that it received when it became a worker. Only set in a process that
 * had loaded the worker's modules before (a standby of the process pool); every other process started with its environment.
 */
export const ENVIRONMENT_AT_START = "@stint/environment-at-start"

/** The input of {@link workerEnvironment}. */
export interface WorkerEnvironment {
  /** The platform's URL, without a trailing slash: `http://127.0.0.1:4600`. */
  readonly baseUrl: string
  readonly endpoint: string
  /** The worker's id. Absent if the worker chooses its own id. */
  readonly worker?: string
  readonly key: string
  readonly pingIntervalMs: number
  /** Default: the variables with both prefixes. */
  readonly prefix?: EnvPrefix
}

/**
 * The environment variables with which a process runs as a worker of an endpoint.
 *
 * The worker's SDK replaces the placeholders `$ID` and `$RUNPOD_POD_ID`: `$ID` stands for the worker's id in the job-take URL and for the
 * job's id in all other URLs (docs/spec/worker-protocol.md#addresses). Every URL has a query, because SDKs append `&key=value` to it.
 */
export const workerEnvironment = (options: WorkerEnvironment): Record<string, string> => {
  const base = `${options.baseUrl}/v2/${options.endpoint}`
  const variables: Record<string, string> = {
    [WorkerVariable.getJob]: `${base}/job-take/$ID?gpu=none`,
    [WorkerVariable.postOutput]: `${base}/job-done/$RUNPOD_POD_ID/$ID?gpu=none`,
    [WorkerVariable.postStream]: `${base}/job-stream/$RUNPOD_POD_ID/$ID?gpu=none`,
    [WorkerVariable.ping]: `${base}/ping/$RUNPOD_POD_ID?gpu=none`,
    [WorkerVariable.pingInterval]: String(options.pingIntervalMs),
    [WorkerVariable.apiKey]: options.key,
    [WorkerVariable.endpointId]: options.endpoint
  }
  if (options.worker !== undefined) {
    variables[WorkerVariable.podId] = options.worker
    variables[WorkerVariable.podHostname] = options.worker
  }
  const result: Record<string, string> = {}
  for (const prefix of options.prefix === undefined ? ENV_PREFIXES : [options.prefix]) {
    for (const [name, value] of Object.entries(variables)) result[prefix + name] = value
  }
  return result
}

/**
 * A worker that sends this header with job-take receives a `leaseToken` with each job, and promises to send it back with every write
 * (docs/spec/worker-protocol.md#lease-tokens). In lower case, as Node reports headers.
 */
export const LEASE_TOKEN_HEADER = "stint-lease-token"

/** The heartbeat interval in milliseconds: a third of the lease, but at least 250 ms. */
export const pingIntervalOf = (leaseMs: number): number => Math.max(250, Math.floor(leaseMs / 3))

/**
 * A job as a worker receives it (docs/spec/worker-protocol.md#the-taken-job). Workers preserve unknown keys.
 */
export const TakenJob = Schema.Struct({
  id: Schema.String,
  input: Schema.Json,
  delayTime: Schema.optionalKey(Schema.Int),
  /**
   * The number of this attempt, from 1. A Stint extension: when a worker sends it back as `attempt=`, its writes are fenced by attempt,
   * so that a late result from an earlier attempt is rejected (docs/spec/worker-protocol.md#fencing).
   */
  attempt: Schema.optionalKey(Schema.Int),
  /**
   * Proves that this worker took the job in this attempt. A Stint extension: the worker sends it back as `lease_token=`
   * (docs/spec/worker-protocol.md#lease-tokens).
   */
  leaseToken: Schema.optionalKey(Schema.String),
  s3Config: Schema.optionalKey(Schema.Json),
  /** The job's batch (docs/spec/batches.md#starting-a-batch). */
  batchId: Schema.optionalKey(Schema.String),
  /** The caller's span (`TraceContext.ts`), if the submission had one. A Stint extension. */
  traceparent: Schema.optionalKey(Schema.String),
  tracestate: Schema.optionalKey(Schema.String)
})
export type TakenJob = typeof TakenJob.Type

/**
 * The body of job-done: a result or, with `status: "IN_PROGRESS"`, progress
 * (docs/spec/worker-protocol.md#result-bodies, docs/spec/worker-protocol.md#delivering-progress). Unknown keys are ignored.
 *
 * `error` is a string in our SDKs. Other SDKs send other JSON values, which the server stores as JSON text.
 */
export const JobDone = Schema.Struct({
  output: Schema.optionalKey(Schema.Json),
  error: Schema.optionalKey(Schema.Json),
  /** Requests that the platform restart the worker (docs/spec/handler.md#returned-values). */
  stopPod: Schema.optionalKey(Schema.Json),
  status: Schema.optionalKey(Schema.Json)
})
export type JobDone = typeof JobDone.Type

/** The maximum number of results in one job-done-batch request. */
export const MAX_DELIVERED_RESULTS = 1_000

/**
 * One result in the body of job-done-batch: the body of job-done, and what its URL contains otherwise
 * (docs/spec/worker-protocol.md#delivering-several-results). A Stint extension.
 */
export const DeliveredResult = Schema.Struct({
  id: Schema.String,
  attempt: Schema.optionalKey(Schema.Int.check(Schema.isGreaterThan(0))),
  leaseToken: Schema.optionalKey(Schema.String),
  ...JobDone.fields
})
export type DeliveredResult = typeof DeliveredResult.Type

/** What became of one result of job-done-batch. `status`: the status with which job-done would have responded; `error` unless it is 200. */
export const DeliveryStatus = Schema.Struct({
  status: Schema.Int,
  error: Schema.optionalKey(Schema.String),
  hint: Schema.optionalKey(Schema.String)
})
export type DeliveryStatus = typeof DeliveryStatus.Type

/** The body of job-stream: one chunk. */
export const JobChunk = Schema.Struct({ output: Schema.Json })
export type JobChunk = typeof JobChunk.Type

/** The response of job-stop: the ids of the jobs to stop. */
export const JobsToStop = Schema.Struct({ jobsToStop: Schema.Array(Schema.String) })
export type JobsToStop = typeof JobsToStop.Type

/** The name under which a failed setup is reported, instead of the name of a fitness check (docs/spec/worker-protocol.md#setup-notice). */
export const SETUP_CHECK = "setup"

/** The maximum duration of a worker's setup. Milliseconds. */
export const MAX_SETUP_MILLIS = 86_400_000

/** The limit of a setup whose notice contains none: the limit of a whole start. Milliseconds. */
const DEFAULT_SETUP_MILLIS = 420_000

/**
 * A heartbeat (docs/spec/worker-protocol.md#heartbeat), as a JSON body or a query. `job_id` is a list of ids, or a comma-separated string;
 * absent when the worker is idle.
 */
export const Ping = Schema.Struct({
  job_id: Schema.optionalKey(Schema.NullOr(Schema.Union([Schema.String, Schema.Array(Schema.String)]))),
  /** The lease tokens of the jobs in `job_id`, in the same order; empty for a job without one. */
  lease_token: Schema.optionalKey(Schema.NullOr(Schema.Union([Schema.String, Schema.Array(Schema.String)]))),
  runpod_version: Schema.optionalKey(Schema.NullOr(Schema.String)),
  /** `unhealthy` reports a failed fitness check or setup; `setup` that the setup began; `exiting` announces the worker's exit. */
  status: Schema.optionalKey(Schema.NullOr(Schema.String)),
  /** The fitness check that failed. */
  check: Schema.optionalKey(Schema.NullOr(Schema.String)),
  reason: Schema.optionalKey(Schema.NullOr(Schema.String)),
  /** With `setup`: how long it may take, in milliseconds. In a query, a string. */
  setup_timeout: Schema.optionalKey(Schema.NullOr(Schema.Union([Schema.String, Schema.Number]))),
  /** The maximum number of jobs that the worker's handler runs in one call. A Stint extension, in a JSON body only. */
  batch_max: Schema.optionalKey(Schema.NullOr(Schema.Number)),
  /** How long the first of these jobs waits for others. Milliseconds. */
  batch_wait: Schema.optionalKey(Schema.NullOr(Schema.Number))
})
export type Ping = typeof Ping.Type

/** The job ids of a heartbeat. */
export const pingJobs = (ping: Ping): ReadonlyArray<string> => {
  const jobs = ping.job_id ?? []
  return (typeof jobs === "string" ? jobs.split(",") : jobs).map((id) => id.trim()).filter((id) => id !== "")
}

/** The lease tokens of a heartbeat, in the order of its jobs. */
export const pingTokens = ({ lease_token }: Ping): ReadonlyArray<string> => {
  const tokens = lease_token ?? []
  return typeof tokens === "string" ? tokens.split(",") : tokens
}

/** How a worker collects jobs, as its heartbeats say. */
export interface WorkerBatch {
  /** The maximum number of jobs in one call. */
  readonly max: number
  /** How long the first job waits for others. Milliseconds. */
  readonly waitMs: number
}

/** How the worker of a heartbeat collects jobs; undefined if it runs each job alone. */
export const pingBatch = ({ batch_max, batch_wait }: Ping): WorkerBatch | undefined => {
  const max = Math.trunc(batch_max ?? 0)
  return max > 1 ? { max, waitMs: Math.max(0, batch_wait ?? 0) } : undefined
}

/** How long the setup that a heartbeat announces may take. Milliseconds, within the bounds. */
export const setupMillis = ({ setup_timeout }: Ping): number => {
  const millis = Number(setup_timeout ?? DEFAULT_SETUP_MILLIS)
  return Number.isFinite(millis) && millis > 0 ? Math.min(millis, MAX_SETUP_MILLIS) : DEFAULT_SETUP_MILLIS
}
