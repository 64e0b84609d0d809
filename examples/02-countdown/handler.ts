/**
 * A streaming handler: each `yield` sends a chunk to the caller.
 *
 *   stint run countdown --input '{"from":3}' --stream
 */
import * as sdk from "@stint/sdk"

sdk.serverless.start({
  handler: async function*(job: { input: { from: number } }) {
    for (let n = job.input.from; n > 0; n--) yield n
  },
  // Also returns the list of all numbers as the output, for /runsync and /status.
  return_aggregate_stream: true
})
