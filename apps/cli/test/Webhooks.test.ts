/**
 * Webhooks across restarts of a platform: signed, delivered to a failing receiver despite a kill -9 of the platform, and inspected with the
 * CLI.
 */
import * as Sqlite from "@stint/store-sqlite"
import { webhookDeliverySuite } from "@stint/webhooks-testing"
import { verify } from "@stint/webhooks/verify"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { once } from "node:events"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

webhookDeliverySuite(
  "SQLite",
  Layer.unwrap(Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "stint-webhooks-"))),
      (directory) => Effect.sync(() => rmSync(directory, { recursive: true, force: true }))
    ),
    (directory) => Sqlite.layer({ file: join(directory, "stint.db"), durability: "D1" })
  )),
  { jobs: 200, seeds: [11] }
)

interface Received {
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly path: string
}

/** A webhook receiver on the loopback interface. It records its requests; each test sets its behaviour. */
class Hooks implements AsyncDisposable {
  readonly received: Array<Received> = []
  behave: (received: Received, response: ServerResponse) => void = (_, response) => void response.end()
  readonly #server: Server

  private constructor() {
    this.#server = createServer((request, response) => {
      const parts: Array<Buffer> = []
      request.on("data", (part: Buffer) => parts.push(part))
      request.on("end", () => {
        const received = { headers: request.headers, body: Buffer.concat(parts).toString(), path: request.url ?? "" }
        this.received.push(received)
        this.behave(received, response)
      })
      // The connections of a killed platform fail.
      request.on("error", () => {})
    })
  }

  static async listen(): Promise<Hooks> {
    const hooks = new Hooks()
    hooks.#server.listen(0, "127.0.0.1")
    await once(hooks.#server, "listening")
    return hooks
  }

  url(path: string): string {
    const address = this.#server.address()
    if (address === null || typeof address === "string") throw new Error("not listening")
    return `http://127.0.0.1:${address.port}${path}`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, "close")
  }
}

const idOf = ({ body }: { readonly body: unknown }): string => {
  if (typeof body !== "object" || body === null || !("id" in body) || typeof body.id !== "string") {
    throw new Error(`no id: ${JSON.stringify(body)}`)
  }
  return body.id
}

describe("webhooks of a platform", () => {
  let platform: PlatformProcess
  let hooks: Hooks

  const submit = async (path: string, n: number): Promise<string> =>
    idOf(await platform.request("POST", "/v2/slow/run", { input: { n }, webhook: hooks.url(path) }))

  const cli = async (...args: ReadonlyArray<string>) => {
    const { code, stderr, stdout } = await stint(platform, ["webhooks", ...args])
    if (code !== 0) throw new Error(`stint webhooks ${args.join(" ")} exited with code ${code}: ${stderr}`)
    return stdout
  }
  const list = async (...args: ReadonlyArray<string>) => JSON.parse(await cli("list", "slow", "--json", ...args))

  beforeAll(async () => {
    hooks = await Hooks.listen()
    platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")], {
      STINT_WEBHOOKS_ALLOW: "127.0.0.1",
      STINT_WEBHOOKS_TIMEOUT: "1 second"
    })
  })
  afterAll(async () => {
    await platform[Symbol.asyncDispose]()
    await hooks[Symbol.asyncDispose]()
  })

  it("delivers the end of a job within a second: the job object with input and webhook, signed with the endpoint's secret", async () => {
    const secret = (await cli("secret", "slow")).trim()
    const id = await submit("/first", 1)
    const job = await platform.ended("slow", id)
    const endedAt = Date.now()
    const received = await until("the webhook", () => hooks.received.find(({ path }) => path === "/first"))
    expect(Date.now() - endedAt).toBeLessThan(1_000)
    expect(JSON.parse(received.body)).toEqual({ ...job, input: { n: 1 }, webhook: hooks.url("/first") })
    expect(received.headers["content-type"]).toBe("application/json")
    expect(received.headers["user-agent"]).toMatch(/^Stint/)
    const { deliveries } = await until("the log to have it", async () => {
      const page = await list("--job", id)
      return page.deliveries[0]?.state === "delivered" ? page : undefined
    })
    expect(deliveries).toMatchObject([{ job: id, event: "completed", attemptCount: 1, lastStatus: 200, nextAt: null }])
    expect(verify(secret, received.headers, received.body).id).toBe(deliveries[0].id)
  })

  it(
    "R10: delivers every job at least once, signed, despite a kill -9 and a receiver that hangs, cuts connections and fails",
    async () => {
      const secret = (await cli("secret", "slow")).trim()
      const accepted = new Set<string>()
      let count = 0
      hooks.behave = ({ body }, response) => {
        switch (count++ % 4) {
          case 0:
            // Hangs until the platform is killed or its timeout ends.
            return
          case 1:
            return void response.destroy()
          default:
            accepted.add(JSON.parse(body).id)
            response.writeHead(204).end()
        }
      }
      const before = hooks.received.length
      const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => submit("/many", n)))
      await until("requests in flight", () => hooks.received.length > before + 3 ? true : undefined)
      await platform.end("SIGKILL")
      hooks.behave = ({ body }, response) => {
        accepted.add(JSON.parse(body).id)
        response.writeHead(204).end()
      }
      await platform.start()
      await until("the delivery of every job", () => ids.every((id) => accepted.has(id)) ? true : undefined, 60_000)
      for (const { body, headers } of hooks.received.slice(before)) {
        const { id } = verify(secret, headers, body)
        expect(id).toMatch(/^[0-9a-f-]{36}$/)
        expect(["COMPLETED", "FAILED"]).toContain(JSON.parse(body).status)
      }
      for (const id of ids) expect((await platform.job("slow", id)).status).toBe("COMPLETED")
    },
    120_000
  )

  it("lists an abandoned delivery with its reason, and resends it from the command line", async () => {
    hooks.behave = (_, response) => void response.writeHead(410).end()
    const id = await submit("/gone", 7)
    const failed = await until("the delivery to fail", async () => (await list("--job", id, "--state", "failed")).deliveries[0])
    expect(failed).toMatchObject({ attemptCount: 1, lastStatus: 410, lastError: expect.stringContaining("410 (Gone)") })
    hooks.behave = (_, response) => void response.end()
    const first = hooks.received.findLast(({ path }) => path === "/gone")
    expect(await cli("resend", "slow", failed.id)).toContain("again")
    const shown = await until("the resent delivery", async () => {
      const text = await cli("show", "slow", failed.id)
      return /state +delivered/.test(text) ? text : undefined
    })
    expect(shown).toMatch(/1 +\S+ \S+ +\d+ ms +410 .*\n2 +\S+ \S+ +\d+ ms +200/)
    expect(shown).toContain(`"id": "${id}"`)
    const second = hooks.received.findLast(({ path }) => path === "/gone")
    expect(second?.body).toBe(first?.body)
    expect(second?.headers["webhook-id"]).toBe(first?.headers["webhook-id"])
  })

  it("fails a delivery to a forbidden address at once, without a connection, and logs the reason", async () => {
    const url = "http://127.0.0.2:9/inside"
    const id = idOf(await platform.request("POST", "/v2/slow/run", { input: { n: 8 }, webhook: url }))
    const failed = await until("the delivery to fail", async () => (await list("--job", id, "--state", "failed")).deliveries[0])
    expect(failed).toMatchObject({
      attemptCount: 1,
      lastStatus: null,
      lastError: expect.stringMatching(/127\.0\.0\.2.*loopback.*STINT_WEBHOOKS_ALLOW/)
    })
  })

  it("names the variable and its value when a webhook setting is invalid", async () => {
    for (
      const [name, value] of [["STINT_WEBHOOKS_ALLOW", "inside"], ["STINT_WEBHOOKS_TIMEOUT", "1 hour"], [
        "STINT_WEBHOOKS_KEEP",
        "1 minute"
      ]] as const
    ) {
      const { code, stderr, stdout } = await stint(undefined, ["serve"], { [name]: value })
      expect(code).toBe(1)
      expect(stderr + stdout).toContain(`The variable ${name} is "${value}": `)
    }
  })
})
