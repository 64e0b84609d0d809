/**
 * The smallest endpoint: a plain async function.
 *
 *   node handler.ts                                               runs it once, with test_input.json
 *   stint run hello --input '{"name":"Ada"}' --sync               runs a job on the platform
 */
import * as sdk from "@stint/sdk"

sdk.serverless.start({
  handler: async (job: { input: { name: string } }) => ({ greeting: `Hello, ${job.input.name}!` })
})
