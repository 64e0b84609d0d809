/**
 * Batches over the lives of a platform: killed with kill -9 while requests are added, while the batch is finalized and while it runs, it ends
 * with every request exactly once in its results, and tells so.
 */
import { verify } from "@stint/webhooks/verify"
import { once } from "node:events"
import { readFile } from "node:fs/promises"
import { createServer, type IncomingHttpHeaders } from "node:http"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

/** What an answer has under a key. */
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

/** A receiver on the loopback that keeps what it gets. */
const listen = async () => {
  const received: Array<{ readonly headers: IncomingHttpHeaders; readonly body: string }> = []
  const server = createServer((request, response) => {
    const parts: Array<Buffer> = []
    request.on("error", () => {})
    request.on("data", (part: Buffer) => parts.push(part))
    request.on("end", () => {
      received.push({ headers: request.headers, body: Buffer.concat(parts).toString() })
      response.end()
    })
  })
  server.listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  if (address === null || typeof address === "string") throw new Error("not listening")
  return {
    received,
    url: `http://127.0.0.1:${address.port}/batch`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections()
      server.close()
      await once(server, "close")
    }
  }
}

describe("a batch of 500 requests", () => {
  it(
    "R1: survives kill -9 while requests are added, during finalization and while it runs; every request has one result",
    async () => {
      await using hooks = await listen()
      await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")], {
        STINT_WEBHOOKS_ALLOW: "127.0.0.1"
      })
      const secret = (await stint(platform, ["webhooks", "secret", "slow"])).stdout.trim()
      const log = join(platform.dataDir, "log")
      const call = async (method: string, rest: string, body?: unknown) => {
        const answer = await platform.request(method, `/v2/slow/batch${rest}`, body)
        if (answer.status !== 200) throw new Error(`${method} ${rest} answered ${answer.status}: ${JSON.stringify(answer.body)}`)
        return answer.body
      }
      const id = String(member(await call("POST", "", { name: "nightly", webhook: hooks.url }), "id"))
      const look = async () => (await call("GET", `/${id}`)) as Counts

      // Killed while it is filled: a call that was not answered is kept whole, or not at all.
      const add = async (from: number) => {
        const requests = Array.from({ length: 50 }, (_, at) => ({ input: { n: from + at, ms: 5, log } }))
        await call("POST", `/${id}/requests`, { requests })
      }
      for (let from = 0; from < 200; from += 50) await add(from)
      const last = add(200).catch(() => "not answered")
      await platform.end("SIGKILL")
      await last
      await platform.start()
      const { requestTotal } = await look()
      expect([200, 250]).toContain(requestTotal)
      for (let from = requestTotal; from < 500; from += 50) await add(from)

      // Killed while it is finalized: not all of its requests need be jobs by then.
      const finalizing = call("POST", `/${id}/finalize`).catch(() => "not answered")
      await until("it to start", async () => (await look()).status === "FINALIZED" ? true : undefined)
      await platform.end("SIGKILL")
      await finalizing
      await platform.start()
      await call("POST", `/${id}/finalize`)
      expect(await look()).toMatchObject({ requestTotal: 500 })

      // Killed while it runs.
      for (const done of [60, 250]) {
        await until(
          `${done} requests to have ended`,
          async () => (await look()).requestCompleted >= done ? true : undefined,
          60_000
        )
        await platform.end("SIGKILL")
        await platform.start()
      }
      await call("POST", `/${id}/finalize`)
      const ended = await until("the batch to end", async () => {
        const batch = await look()
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

      // A request ran again only where its worker was lost with it.
      const started = new Map<string, number>()
      for (const line of (await readFile(log, "utf8")).trim().split("\n")) {
        const { event, id } = JSON.parse(line)
        if (event === "started") started.set(id, (started.get(id) ?? 0) + 1)
      }
      expect(started.size).toBe(500)
      for (const { id, retries = 0 } of results) expect(started.get(id)).toBeLessThanOrEqual(1 + retries)

      const told = await until("the webhook", () => hooks.received[0])
      expect(told.headers["webhook-event"]).toBe("batch.completed")
      verify(secret, told.headers, told.body)
      expect(JSON.parse(told.body)).toMatchObject({ id, status: "COMPLETED", name: "nightly", requestCompleted: 500 })
    },
    240_000
  )
})
