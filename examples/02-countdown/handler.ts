/**
 * A stream: every `yield` reaches the caller at once, as a chunk of its own.
 *
 *   stint run countdown --input '{"from":3}' --stream
 */
import * as sdk from "@stint/sdk"

sdk.serverless.start({
  handler: async function*(job: { input: { from: number } }) {
    for (let n = job.input.from; n > 0; n--) yield n
  },
  // Callers of /runsync and /status get all the numbers, too.
  return_aggregate_stream: true
})
