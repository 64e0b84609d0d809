/**
 * The worker SDK, with the names in docs/spec/handler.md#facade.
 *
 * ```ts
 * import * as sdk from "@stint/sdk"
 *
 * sdk.serverless.start({
 *   handler: async (job: { input: { name: string } }) => ({ greeting: `Hello, ${job.input.name}` })
 * })
 * ```
 */
export * as log from "./log.ts"
export * as rp_debugger from "./rp_debugger.ts"
export * as rp_progress from "./rp_progress.ts"
export * as rp_validator from "./rp_validator.ts"
export * as serverless from "./serverless.ts"
export * as utils from "./utils.ts"
