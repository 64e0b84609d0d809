/**
 * Calls endpoints with promises.
 */
export { CallError, type Problem, type Reason, StintError } from "./CallError.ts"
export type { HandlerLike, PlainHandler } from "./HandlerType.ts"
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
