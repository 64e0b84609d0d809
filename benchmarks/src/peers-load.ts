/**
 * The load generator for the comparison with other stacks, a separate process. It sends the same bytes to all stacks.
 */
import * as Schema from "effect/Schema"
import process from "node:process"
import { KEY } from "./BenchmarkPlatform.ts"
import { open, requestBytes } from "./HttpConnection.ts"
import { Load, type Measurement } from "./PeerMessages.ts"

const body = JSON.stringify({ input: { text: "x".repeat(256 - `{"input":{"text":""}}`.length) } })

const quantile = (all: ReadonlyArray<number>, q: number): number =>
  all[Math.min(all.length - 1, Math.floor(q * all.length))] ?? Number.NaN

const measure = async ({ connections, host, millis, path }: Load): Promise<Measurement> => {
  const request = requestBytes(host, "POST", path, KEY, body)
  const callers = await Promise.all(Array.from({ length: connections }, () => open(host)))
  const latencies: Array<number> = []
  const started = performance.now()
  await Promise.all(callers.map((caller) =>
    new Promise<void>((resolve) => {
      const next = () => {
        const sent = performance.now()
        caller.send(request, ({ body, status }) => {
          if (status < 200 || status > 202) throw new Error(`${path} returned ${status}: ${body}`)
          const now = performance.now()
          latencies.push(now - sent)
          if (now - started < millis) next()
          else resolve()
        })
      }
      next()
    })
  ))
  const took = performance.now() - started
  for (const caller of callers) caller.close()
  latencies.sort((a, b) => a - b)
  return { requests: latencies.length, millis: took, p50: quantile(latencies, 0.5), p99: quantile(latencies, 0.99) }
}

const decode = Schema.decodeUnknownSync(Load)

process.on("message", (load) => {
  void measure(decode(load)).then((measured) => process.send?.(measured))
})
