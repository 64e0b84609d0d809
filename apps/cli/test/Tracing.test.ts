/**
 * A caller's trace through the platform, from the header of its request to the spans of the worker that runs the job.
 */
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { listen } from "./OtlpCollector.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

const CALLER = "b7ad6b7169203331"

describe("a request with a traceparent", () => {
  it("has its job's spans in its trace, whether the worker runs from sources or from a bundle", async () => {
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
      const [job] = await collector.wait(trace, "process everywhere")
      const [attempt] = await collector.wait(trace, "attempt everywhere")
      const [send] = await collector.wait(trace, "send everywhere")
      const [wait] = await collector.wait(trace, "wait everywhere")
      expect(job?.parentSpanId).toBe(attempt?.spanId)
      expect([attempt?.parentSpanId, wait?.parentSpanId]).toEqual([send?.spanId, send?.spanId])
      expect(send?.parentSpanId).toBe(CALLER)
      expect(wait?.endTimeUnixNano).toBe(attempt?.startTimeUnixNano)
      const children = collector.spans.filter(({ parentSpanId }) => parentSpanId === job?.spanId).map(({ name }) => name)
      expect(children).toEqual(expect.arrayContaining(["handler", "deliver"]))
      await until("the worker to be gone", async () => {
        const { body } = await platform.request("GET", "/v2/everywhere/health")
        return JSON.stringify(body).includes("\"idle\":0,\"initializing\":0,\"ready\":0,\"running\":0") ? true : undefined
      })
    }
    expect(workers.size).toBe(2)
  }, 60_000)
})
