/**
 * Calls endpoints: with Effect (`Client`), or with Promises (`createClient`).
 *
 * Without a bundler, `@stint/client/PromiseClient` starts faster than this index, because it brings no Effect.
 */
export { CallError, type Problem, type Reason, StintError } from "./CallError.ts"
export * as Client from "./Client.ts"
export type { EndedJob, Exception } from "./Ending.ts"
export type { JobEvent } from "./Following.ts"
export type { HandlerLike, PlainHandler } from "./HandlerType.ts"
export { JobCancelledError, JobFailedError, JobTimedOutError } from "./JobErrors.ts"
export {
  type CallOptions,
  type ClientOptions,
  createClient,
  type EventsOptions,
  type RunOptions,
  type WaitOptions
} from "./PromiseClient.ts"
export type { Client as PromiseClient, Endpoint as PromiseEndpoint, JobHandle as PromiseJob } from "./PromiseClient.ts"
