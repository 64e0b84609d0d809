/**
 * Calls the other examples with Promises. Start them with `pnpm start`, take the key that it prints, and:
 *
 *   STINT_API_KEY=... node caller.ts
 */
import { createClient, JobFailedError } from "@stint/client"
// Only its type: nothing of the worker is loaded here, nor would it be in a web page.
import type { Greeting } from "../03-layers/Greeting.ts"

const client = createClient({
  baseUrl: process.env["STINT_URL"] ?? "http://127.0.0.1:4600",
  apiKey: process.env["STINT_API_KEY"]
})

// By the caller's word.
const hello = client.endpoint<{ name: string }, { greeting: string }>("hello")
console.log((await hello.runSync({ name: "Ada" })).greeting)

// Chunk by chunk, as the handler yields them.
for await (const n of client.endpoint("countdown").stream({ from: 3 })) console.log(n)

// Submitted now, looked at later: the id is all that is needed.
const job = await hello.run({ name: "Grace" })
console.log((await hello.result(job.id)).greeting)

// By the handler's type, in JSON.
const layers = client.endpoint<typeof Greeting>("layers")
console.log((await layers.runSync({ name: "Ada", language: "fr" })).greeting)

try {
  await layers.runSync({ name: "Ada", language: "tlh" }, { signal: AbortSignal.timeout(60_000) })
} catch (error) {
  if (!(error instanceof JobFailedError)) throw error
  console.log(error.message)
}
