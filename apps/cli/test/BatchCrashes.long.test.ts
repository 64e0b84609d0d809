/**
 * Batches across restarts of a platform. Kills the platform with kill -9 while requests are added, during finalization and while the batch
 * runs. The batch must end with exactly one result per request, and send its webhook.
 */
import { verify } from "@stint/webhooks/verify"
import { readFile } from "node:fs/promises"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"
import { receiveWebhooks } from "./WebhookReceiver.ts"

/** The value of a key in a response. */
const member = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null ? Object.getOwnPropertyDescriptor(value, key)?.value : undefined

interface Result {
  readonly id: string
  readonly status: string
  readonly output?: { readonly n: number }
  readonly retries?: number
}

interface Counts {
  readonly status: string
  readonly requestTotal: number
  readonly requestCompleted: number
  readonly requestFailed: number
  readonly requestInProgress: number
}

describe("a batch of 500 requests", () => {
  it(
    "R1: survives kill -9 while requests are added, during finalization and while it runs; every request has one result",
    async () => {
      await using hooks = await receiveWebhooks()
      await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")], {
        STINT_WEBHOOKS_ALLOW: "127.0.0.1"
      })
      const secret = (await stint(platform, ["webhooks", "secret", "slow"])).stdout.trim()
      const log = join(platform.dataDir, "log")
      const call = async (method: string, rest: string, body?: unknown) => {
        const answer = await platform.request(method, `/v2/slow/batch${rest}`, body)
        if (answer.status !== 200) throw new Error(`${method} ${rest} returned ${answer.status}: ${JSON.stringify(answer.body)}`)
        return answer.body
      }
      const id = String(member(await call("POST", "", { name: "nightly", webhook: hooks.url }), "id"))
      const readCounts = async () => (await call("GET", `/${id}`)) as Counts

      // Kill while requests are added: a call without a response is stored completely or not at all.
      const add = async (from: number) => {
        const requests = Array.from({ length: 50 }, (_, at) => ({ input: { n: from + at, ms: 5, log } }))
        await call("POST", `/${id}/requests`, { requests })
      }
      for (let from = 0; from < 200; from += 50) await add(from)
      const last = add(200).catch(() => "no response")
      await platform.end("SIGKILL")
      await last
      await platform.start()
      const { requestTotal } = await readCounts()
      expect([200, 250]).toContain(requestTotal)
      for (let from = requestTotal; from < 500; from += 50) await add(from)

      // Kill during finalization: possibly not all requests are jobs yet.
      const finalizing = call("POST", `/${id}/finalize`).catch(() => "no response")
      await until("the batch to start", async () => (await readCounts()).status === "FINALIZED" ? true : undefined)
      await platform.end("SIGKILL")
      await finalizing
      await platform.start()
      await call("POST", `/${id}/finalize`)
      expect(await readCounts()).toMatchObject({ requestTotal: 500 })

      // Kill while the batch runs.
      for (const done of [60, 250]) {
        await until(
          `${done} requests to have ended`,
          async () => (await readCounts()).requestCompleted >= done ? true : undefined,
          60_000
        )
        await platform.end("SIGKILL")
        await platform.start()
      }
      await call("POST", `/${id}/finalize`)
      const ended = await until("the batch to end", async () => {
        const batch = await readCounts()
        expect(batch.requestCompleted + batch.requestFailed + batch.requestInProgress).toBeLessThanOrEqual(500)
        return batch.status === "FINALIZED" ? undefined : batch
      }, 90_000)
      expect(ended).toMatchObject({
        status: "COMPLETED",
        requestTotal: 500,
        requestCompleted: 500,
        requestFailed: 0,
        requestInProgress: 0
      })

      const results: Array<Result> = []
      for (let more = true; more;) {
        const page = await call("GET", `/${id}/requests?limit=200&offset=${results.length}`)
        results.push(...(member(page, "requests") as ReadonlyArray<Result>))
        more = member(page, "hasMore") === true
      }
      expect(results.map((one) => one.output?.n)).toEqual(Array.from({ length: 500 }, (_, n) => n))
      expect(new Set(results.map((one) => one.id)).size).toBe(500)
      expect(new Set(results.map((one) => one.status))).toEqual(new Set(["COMPLETED"]))

      // A request ran again only if its worker was lost during the job.
      const started = new Map<string, number>()
      for (const line of (await readFile(log, "utf8")).trim().split("\n")) {
        const { event, id } = JSON.parse(line)
        if (event === "started") started.set(id, (started.get(id) ?? 0) + 1)
      }
      expect(started.size).toBe(500)
      for (const { id, retries = 0 } of results) expect(started.get(id)).toBeLessThanOrEqual(1 + retries)

      const delivered = await until("the webhook", () => hooks.received[0])
      expect(delivered.headers["webhook-event"]).toBe("batch.completed")
      verify(secret, delivered.headers, delivered.body)
      expect(JSON.parse(delivered.body)).toMatchObject({ id, status: "COMPLETED", name: "nightly", requestCompleted: 500 })
    },
    240_000
  )
})
