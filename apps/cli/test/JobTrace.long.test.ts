/**
 * One connected trace for a job, made by real processes: a client, a platform that is killed in the middle, a worker, and a webhook receiver.
 */
import { createClient } from "@stint/client"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { attribute, listen, type OtlpCollector, type Span } from "./OtlpCollector.ts"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"
import { receiveWebhooks } from "./WebhookReceiver.ts"

const TRACE = "0af7651916cd43dd8448eb211c80319c"
const CALLER = "b7ad6b7169203331"

const start = (span: Span | undefined) => BigInt(span?.startTimeUnixNano ?? 0)
const end = (span: Span | undefined) => BigInt(span?.endTimeUnixNano ?? 0)

const serve = (collector: OtlpCollector, config = "traced.config.ts") =>
  PlatformProcess.create(["serve", "--config", join(FIXTURES, config)], {
    ...collector.variables,
    STINT_WEBHOOKS_ALLOW: "127.0.0.1"
  })

/** The spans of the trace whose parent was not sent. */
const orphansOf = ({ spans }: OtlpCollector): ReadonlyArray<string> => {
  const ids = new Set(spans.map(({ spanId }) => spanId))
  return spans.filter(({ parentSpanId, traceId }) => traceId === TRACE && parentSpanId !== CALLER && !ids.has(parentSpanId ?? ""))
    .map(({ name }) => name)
}

describe("the trace of a job", () => {
  it("is one tree across a cold start, a retry, a platform that is killed in the middle, and a webhook", async () => {
    using collector = await listen()
    await using hook = await receiveWebhooks()
    await using platform = await serve(collector)
    const tried = join(platform.dataDir, "tried")
    const release = join(platform.dataDir, "release")
    const response = await fetch(`${platform.url}/v2/traced/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${platform.key}`, traceparent: `00-${TRACE}-${CALLER}-01` },
      body: JSON.stringify({ input: { tried, release }, webhook: hook.url })
    })
    const { id } = await response.json() as { readonly id: string }
    // The first attempt has failed, and the second one runs.
    await collector.wait(TRACE, "wait traced", 2)
    await platform.end("SIGKILL")
    await platform.start()
    await writeFile(release, "")
    expect((await platform.ended("traced", id)).status).toBe("COMPLETED")
    await until("the webhook", () => hook.received.length > 0 ? true : undefined, 60_000)
    await collector.wait(TRACE, "webhook completed")
    // The worker sends its spans within a second, or when it exits.
    await collector.wait(TRACE, "process traced", 2)
    await collector.wait(TRACE, "attempt traced", 2)

    const only = (name: string) => {
      const found = collector.named(TRACE, name)
      expect(found, name).toHaveLength(1)
      return found[0]
    }
    const send = only("send traced")
    const [wait1, wait2] = collector.named(TRACE, "wait traced")
    const [attempt1, attempt2] = collector.named(TRACE, "attempt traced")
    const [process1, process2] = collector.named(TRACE, "process traced")
    const cold = only("cold start traced")
    expect(only("start worker")?.parentSpanId).toBe(cold?.spanId)
    const webhook = only("webhook completed")

    expect(orphansOf(collector), collector.tree(TRACE)).toEqual([])
    expect(send?.parentSpanId).toBe(CALLER)
    for (const span of [wait1, wait2, attempt1, attempt2, webhook]) expect(span?.parentSpanId).toBe(send?.spanId)
    expect(cold?.parentSpanId).toBe(wait1?.spanId)
    expect([process1?.parentSpanId, process2?.parentSpanId]).toEqual([attempt1?.spanId, attempt2?.spanId])
    expect([attempt1?.links.length, attempt2?.links[0]?.spanId]).toEqual([0, attempt1?.spanId])

    expect(end(wait1)).toBe(start(attempt1))
    expect(end(wait2)).toBe(start(attempt2))
    expect(start(cold)).toBeGreaterThanOrEqual(start(wait1))
    expect(end(cold)).toBeLessThanOrEqual(end(wait1))
    expect(start(send)).toBe(start(wait1))
    expect(start(process1)).toBeGreaterThanOrEqual(start(attempt1))
    expect(start(process2)).toBeGreaterThanOrEqual(start(attempt2))
    expect(start(wait2)).toBe(end(attempt1))
    expect(start(webhook)).toBeGreaterThanOrEqual(start(attempt2))

    expect(attempt1?.status).toEqual({ code: 2, message: "the first attempt fails" })
    expect(attribute(attempt1 as Span, "error.type")).toBe("RangeError")
    expect(process1?.status).toEqual({ code: 2, message: "the first attempt fails" })
    expect(attribute(attempt2 as Span, "stint.attempt.outcome")).toBe("completed")
    const shown = await stint(platform, ["trace", "traced", id])
    expect(shown.stderr).toBe("")
    // The line about the first attempt is stored with the next lines of logs, so the killed platform may have lost it.
    expect(shown.stdout).toMatch(/1 earlier attempt|attempt 1 on /)
    for (const part of ["wait", "attempt 2 on ", "webhook completed"]) expect(shown.stdout).toContain(part)
    expect((await stint(platform, ["top"])).stdout).toMatch(/^ENDPOINT +QUEUED/)
    expect(hook.received.map(({ headers }) => headers["traceparent"])).toEqual([`00-${TRACE}-${webhook?.spanId}-01`])
  }, 180_000)

  it("is one tree for a pipeline's run and its child, and the metrics count both once", async () => {
    using collector = await listen()
    await using platform = await serve(collector, "pipelines.config.ts")
    const response = await fetch(`${platform.url}/v2/listed/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${platform.key}`, traceparent: `00-${TRACE}-${CALLER}-01` },
      body: JSON.stringify({ input: { log: join(platform.dataDir, "begun") } })
    })
    const { id } = await response.json() as { readonly id: string }
    expect(await platform.ended("listed", id)).toMatchObject({ status: "COMPLETED", output: 91 })
    const attempts = await until("the last attempt", () => {
      const found = collector.named(TRACE, "attempt listed")
      return found.some((one) => attribute(one, "stint.attempt.outcome") === "completed") ? found : undefined
    }, 60_000)
    await collector.wait(TRACE, "attempt child")

    const [send] = collector.named(TRACE, "send listed")
    const [childSend, ...others] = collector.named(TRACE, "send child")
    expect(others).toEqual([])
    expect(send?.parentSpanId).toBe(CALLER)
    expect(attempts.map(({ parentSpanId }) => parentSpanId)).toEqual(attempts.map(() => send?.spanId))
    expect(attempts.map(({ spanId }) => spanId)).toContain(childSend?.parentSpanId)
    const outcomes = attempts.map((one) => attribute(one, "stint.attempt.outcome"))
    expect(outcomes).toEqual([...outcomes.slice(1).map(() => "parked"), "completed"])
    expect(orphansOf(collector), collector.tree(TRACE)).toEqual([])

    const metrics = await fetch(`${platform.url}/metrics`, { headers: { authorization: `Bearer ${platform.key}` } })
    const lines = (await metrics.text()).split("\n")
    for (const endpoint of ["listed", "child"]) {
      expect(lines).toContain(`stint_jobs_submitted_total{endpoint="${endpoint}"} 1`)
      expect(lines).toContain(`stint_jobs_ended_total{endpoint="${endpoint}",status="COMPLETED"} 1`)
      expect(lines).toContain(`stint_job_execution_seconds_count{endpoint="${endpoint}"} 1`)
    }
  }, 180_000)

  it("exists for a job that is cancelled in the queue, and for a job from a client that sends no trace", async () => {
    using collector = await listen()
    await using platform = await serve(collector)
    const client = createClient({ baseUrl: platform.url, apiKey: platform.key })
    const job = await client.endpoint("unserved").run({})
    await job.cancel()
    const wait = await until("the wait", () => collector.spans.find(({ name }) => name === "wait unserved"), 60_000)
    expect(attribute(wait, "stint.job.status")).toBe("CANCELLED")
    expect(wait.status.code ?? 0).toBe(0)
    const [send] = await collector.wait(wait.traceId, "send unserved")
    expect(wait.parentSpanId).toBe(send?.spanId)
    expect(send?.parentSpanId ?? "").toBe("")
    expect(attribute(send as Span, "stint.job.id")).toBe(job.id)
  }, 120_000)

  it("has no span when its caller does not record it", async () => {
    using collector = await listen()
    await using platform = await serve(collector)
    const submit = (flags: string) =>
      fetch(`${platform.url}/v2/unserved/run`, {
        method: "POST",
        headers: { authorization: `Bearer ${platform.key}`, traceparent: `00-${TRACE}-${CALLER}-${flags}` },
        body: JSON.stringify({ input: {} })
      })
    await submit("00")
    await submit("01")
    await collector.wait(TRACE, "send unserved")
    expect(collector.named(TRACE, "send unserved")).toHaveLength(1)
  }, 120_000)
})
