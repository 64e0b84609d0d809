/**
 * Calls endpoints with promises.
 */
export type {
  Health,
  Job,
  JobLogLine,
  JobOptions,
  JobReceipt,
  JobStatus,
  Json,
  Policy,
  Purged,
  Retry,
  RunEvent,
  RunEventReceipt,
  S3Config,
  Webhook,
  WebhookEvent
} from "./ApiTypes.ts"
export { CallError, type Problem, type Reason, StintError } from "./CallError.ts"
export type { CodecResult, EndpointCodec } from "./EndpointCodec.ts"
export type { HandlerLike, SchemaLike } from "./HandlerType.ts"
export { JobCancelledError, JobFailedError, JobTimedOutError } from "./JobErrors.ts"
export type { EndedJob, Exception } from "./JobOutcome.ts"
export {
  type CallOptions,
  type ClientOptions,
  createClient,
  type EventsOptions,
  type RunOptions,
  type WaitOptions
} from "./PromiseClient.ts"
export type { Client as PromiseClient, Endpoint as PromiseEndpoint, JobHandle as PromiseJob } from "./PromiseClient.ts"
export type { JobEvent } from "./protocol/JobEventSubscription.ts"
