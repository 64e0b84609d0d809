/**
 * What a worker and the platform say to each other
 * (docs/spec/worker-protocol.md#heartbeat, docs/spec/environment.md#set-by-the-platform, docs/spec/worker-protocol.md#overview).
 *
 * ```
 *  worker                                      platform
 *    | GET  job-take/{worker}  (long poll)        |   200 job | 204 nothing | 429 wait
 *    | <----------------------------------------- |
 *    | POST job-done/{worker}/{job}  progress*    |   {"status":"IN_PROGRESS","output":...}
 *    | POST job-stream/{worker}/{job} chunk*      |   {"output":...}
 *    | POST job-done/{worker}/{job}  result       |   {"output":...,"error":...,"stopPod":true}
 *    |                                            |
 *    | GET  job-stop/{worker}  (long poll)        |   200 {"jobsToStop":[...]} | 204 nothing
 *    | GET|POST ping/{worker}   every interval    |   extends the leases of the jobs it names
 * ```
 *
 * This module is part of every worker's import graph: it holds words and small schemas, nothing of HTTP.
 */
import * as Schema from "effect/Schema"

/** The two prefixes of worker variables: ours, and the one that existing workers read (docs/spec/rulings.md#prefix). */
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

/** What the variables of one worker are made from. */
export interface WorkerEnvironment {
  /** Address of the platform, without a trailing slash: `http://127.0.0.1:4600`. */
  readonly baseUrl: string
  readonly endpoint: string
  /** Absent for workers that choose their own id. */
  readonly worker?: string
  readonly key: string
  readonly pingIntervalMs: number
  /** The variables' prefix; both sets when absent. */
  readonly prefix?: EnvPrefix
}

/**
 * The variables that make a process a worker of an endpoint.
 *
 * `$ID` and `$RUNPOD_POD_ID` are placeholders that the worker's SDK fills in: in job-take `$ID` is the worker, elsewhere it is the
 * job (docs/spec/worker-protocol.md#addresses). Every address ends in a query, because SDKs append `&key=value` to it.
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

/** How often a worker beats, given how long a silent one keeps its jobs: three chances a lease. Milliseconds. */
export const pingIntervalOf = (leaseMs: number): number => Math.max(250, Math.floor(leaseMs / 3))

/**
 * A job as a worker receives it (docs/spec/worker-protocol.md#the-taken-job). Workers keep keys that they do not know.
 */
export const TakenJob = Schema.Struct({
  id: Schema.String,
  input: Schema.Json,
  delayTime: Schema.optionalKey(Schema.Int),
  /**
   * Which attempt this is, from 1. Ours: a worker that sends it back as `attempt=` is fenced by it, so that a late result of an
   * earlier attempt is never taken for this one's.
   */
  attempt: Schema.optionalKey(Schema.Int),
  s3Config: Schema.optionalKey(Schema.Json),
  /** The batch that the job is a request of (docs/spec/batches.md#starting-a-batch). */
  batchId: Schema.optionalKey(Schema.String),
  /** The caller's span (`TraceContext.ts`), where the request came with one. Ours. */
  traceparent: Schema.optionalKey(Schema.String),
  tracestate: Schema.optionalKey(Schema.String)
})
export type TakenJob = typeof TakenJob.Type

/**
 * The body of job-done: a result or, with `status: "IN_PROGRESS"`, progress
 * (docs/spec/worker-protocol.md#result-bodies, docs/spec/worker-protocol.md#delivering-progress). Unknown keys are ignored.
 *
 * `error` is a string on the wire; other SDKs send other JSON values, which are kept as their JSON text.
 */
export const JobDone = Schema.Struct({
  output: Schema.optionalKey(Schema.Json),
  error: Schema.optionalKey(Schema.Json),
  /** The worker wants to be recycled (docs/spec/handler.md#returned-values). */
  stopPod: Schema.optionalKey(Schema.Json),
  status: Schema.optionalKey(Schema.Json)
})
export type JobDone = typeof JobDone.Type

/** The body of job-stream: one chunk. */
export const JobChunk = Schema.Struct({ output: Schema.Json })
export type JobChunk = typeof JobChunk.Type

/** The answer of job-stop. */
export const JobsToStop = Schema.Struct({ jobsToStop: Schema.Array(Schema.String) })
export type JobsToStop = typeof JobsToStop.Type

/**
 * A heartbeat (docs/spec/worker-protocol.md#heartbeat): a JSON body, or a query. `job_id` is a list of ids, or one string with
 * commas; absent when the worker is idle.
 */
export const Ping = Schema.Struct({
  job_id: Schema.optionalKey(Schema.NullOr(Schema.Union([Schema.String, Schema.Array(Schema.String)]))),
  runpod_version: Schema.optionalKey(Schema.NullOr(Schema.String)),
  /** `unhealthy` reports a failed fitness check; `exiting` is our worker's goodbye. */
  status: Schema.optionalKey(Schema.NullOr(Schema.String)),
  /** The fitness check that failed. */
  check: Schema.optionalKey(Schema.NullOr(Schema.String)),
  reason: Schema.optionalKey(Schema.NullOr(Schema.String))
})
export type Ping = typeof Ping.Type

/** The ids that a heartbeat names. */
export const pingJobs = (ping: Ping): ReadonlyArray<string> => {
  const jobs = ping.job_id ?? []
  return (typeof jobs === "string" ? jobs.split(",") : jobs).map((id) => id.trim()).filter((id) => id !== "")
}
