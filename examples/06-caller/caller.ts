/**
 * Calls the examples with promises. Start them with `pnpm start`, and set STINT_API_KEY to its key.
 *
 *   STINT_API_KEY=$(npx -y pnpm@12 -s stint keys print) node caller.ts
 */
import { createClient, JobFailedError } from "@stint/client"
// Imports only the type, so the handler's module is not loaded.
import type { Greeting } from "../03-layers/Greeting.ts"

const client = createClient({
  baseUrl: process.env["STINT_URL"] ?? "http://127.0.0.1:4600",
  apiKey: process.env["STINT_API_KEY"]
})

// The caller specifies the types.
const hello = client.endpoint<{ name: string }, { greeting: string }>("hello")
console.log((await hello.runSync({ name: "Ada" })).greeting)

// Receives chunks as the handler yields them.
for await (const n of client.endpoint("countdown").stream({ from: 3 })) console.log(n)

// Submits a job and reads its result later, by its id.
const job = await hello.run({ name: "Grace" })
console.log((await hello.result(job.id)).greeting)

// The types come from the handler's type, as JSON values.
const layers = client.endpoint<typeof Greeting>("layers")
console.log((await layers.runSync({ name: "Ada", language: "fr" })).greeting)

try {
  await layers.runSync({ name: "Ada", language: "tlh" }, { signal: AbortSignal.timeout(60_000) })
} catch (error) {
  if (!(error instanceof JobFailedError)) throw error
  console.log(error.message)
}
