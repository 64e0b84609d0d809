/**
 * A caller's trace through the platform, from the header of its request to the spans of the worker that runs the job.
 */
import { createServer } from "node:http"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

const CALLER = "b7ad6b7169203331"

interface Span {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
}

/** All spans in an export, at any depth. */
const spansIn = (value: unknown): ReadonlyArray<Span> => {
  if (typeof value !== "object" || value === null) return []
  const own = "spanId" in value && "traceId" in value ? [value as Span] : []
  return [...own, ...Object.values(value).flatMap(spansIn)]
}

const listen = async () => {
  const spans: Array<Span> = []
  const server = createServer((request, response) => {
    let text = ""
    request.setEncoding("utf8").on("data", (part: string) => {
      text += part
    }).on("end", () => {
      spans.push(...spansIn(JSON.parse(text)))
      response.end("{}")
    })
  })
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up))
  const address = server.address()
  return {
    spans,
    url: `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`,
    [Symbol.dispose]: () => {
      server.closeAllConnections()
      server.close()
    }
  }
}

describe("a request with a traceparent", () => {
  it("has the spans of its job in its trace, with a worker run from sources and from its bundle", async () => {
    using collector = await listen()
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "everywhere.config.ts")], {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json"
    })
    const runSync = async (trace: string) => {
      const response = await fetch(`${platform.url}/v2/everywhere/runsync`, {
        method: "POST",
        headers: { authorization: `Bearer ${platform.key}`, traceparent: `00-${trace}-${CALLER}-01` },
        body: JSON.stringify({ input: { name: "Ada" } })
      })
      return await response.json() as { readonly workerId?: string }
    }
    const workers = new Set<unknown>()
    for (const trace of ["a".repeat(32), "b".repeat(32)]) {
      workers.add((await runSync(trace)).workerId)
      // The worker sends its last spans when it exits. By then the bundle exists, and the next worker starts from it.
      const job = await until(
        "the job's spans",
        () => collector.spans.find((one) => one.name.startsWith("job ") && one.traceId === trace)
      )
      expect(job.parentSpanId).toBe(CALLER)
      const children = collector.spans.filter(({ parentSpanId }) => parentSpanId === job.spanId).map(({ name }) => name)
      expect(children).toEqual(expect.arrayContaining(["wait", "handler", "deliver"]))
      await until("the worker to be gone", async () => {
        const { body } = await platform.request("GET", "/v2/everywhere/health")
        return JSON.stringify(body).includes("\"idle\":0,\"initializing\":0,\"ready\":0,\"running\":0") ? true : undefined
      })
    }
    expect(workers.size).toBe(2)
  }, 60_000)
})
