/**
 * The words and the wire of Stint.
 *
 * A worker imports the small modules by path (`@stint/contract/WorkerProtocol`), because this index brings the HTTP API with it.
 */
export * from "./AccessKey.ts"
export * from "./Api.ts"
export * from "./Authorization.ts"
export * from "./Batch.ts"
export * from "./BatchApi.ts"
export * from "./ControlApi.ts"
export * from "./Endpoint.ts"
export * from "./Explanation.ts"
export * from "./Health.ts"
export * from "./Ids.ts"
export * from "./Job.ts"
export * from "./JobEvents.ts"
export * from "./JobList.ts"
export * from "./JobsApi.ts"
export * from "./Json.ts"
export * from "./KeysApi.ts"
export * from "./OpenAiApi.ts"
export * from "./Problem.ts"
export * from "./RateLimit.ts"
export * from "./TraceContext.ts"
export * from "./WebhooksApi.ts"
export * from "./WorkerApi.ts"
export * from "./WorkerProtocol.ts"
