/**
 * Alerts of a platform: from failing jobs to a receiver on the loopback interface that verifies the signatures, and from the receiver's messages to
 * the command line and the event stream.
 */
import { describe, expect, it } from "@effect/vitest"
import { AlertMessage } from "@stint/contract/Alert"
import { TestEndpoint, WireClient } from "@stint/server-testing"
import * as AccessKeys from "@stint/server/AccessKeys"
import * as Server from "@stint/server/Server"
import { verify } from "@stint/webhooks/verify"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as AlertConfig from "../src/config/AlertConfig.ts"
import * as PlatformConfig from "../src/config/PlatformConfig.ts"
import { Environment } from "../src/config/SettingNames.ts"
import * as Platform from "../src/platform/Platform.ts"
import { runCommand } from "./CommandInProcess.ts"

const KEY = "sixteen-characters-or-more"
const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`

const decode = Schema.decodeUnknownSync(Schema.fromJsonString(AlertMessage))

interface Received {
  readonly id: string
  readonly message: AlertMessage
}

/** A receiver that verifies each message. It responds to the first alert with 503, so the platform must send that alert again. */
const receiver = Effect.gen(function*() {
  const received: Array<Received> = []
  const rejected: Array<string> = []
  const ids: Array<string> = []
  const server = yield* Effect.acquireRelease(
    Effect.callback<ReturnType<typeof createServer>>((resume) => {
      const made = createServer((request, response) => {
        const parts: Array<Buffer> = []
        request.on("data", (part: Buffer) => parts.push(part))
        request.on("end", () => {
          const body = Buffer.concat(parts).toString()
          try {
            const { id } = verify(SECRET, request.headers, body)
            const message = decode(body)
            const isFirst = message.type === "alert.firing" && !ids.includes(id)
            ids.push(id)
            if (isFirst) return void response.writeHead(503).end()
            received.push({ id, message })
            response.writeHead(204).end()
          } catch (error) {
            rejected.push(String(error))
            response.writeHead(400).end()
          }
        })
      }).listen(0, "127.0.0.1", () => resume(Effect.succeed(made)))
    }),
    (made) =>
      Effect.callback<void>((resume) => {
        made.close(() => resume(Effect.void))
        made.closeAllConnections()
      })
  )
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return { received, rejected, url: `http://127.0.0.1:${port}/alerts` }
})

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "stint-alerts-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** A platform in this process that checks its alerts often. */
const startPlatform = Effect.fnUntraced(function*(alertUrl: string) {
  const dataDir = yield* folder
  const env = {
    PORT: "0",
    STINT_DATA_DIR: dataDir,
    STINT_WEBHOOKS_ALLOW: "127.0.0.1",
    STINT_ALERT_URL: alertUrl,
    STINT_ALERT_SECRET: SECRET,
    STINT_ALERT_FAILED_JOBS: "3"
  }
  const settings = yield* PlatformConfig.load.pipe(
    Effect.provideService(Environment, env),
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))
  )
  const context = yield* Layer.build(Platform.layer({
    settings,
    secrets: AccessKeys.secretsOf(Redacted.make(KEY)),
    store: "memory",
    dataDir,
    endpoints: [],
    alerts: Option.map(yield* AlertConfig.complete(settings.alerts), (alerts) => ({
      ...alerts,
      thresholds: { ...alerts.thresholds, windowMs: 2_000 },
      interval: "20 millis",
      resolve: "100 millis"
    }))
  }))
  const baseUrl = yield* Effect.provide(Server.baseUrl, context)
  return { baseUrl, call: WireClient.make(baseUrl, `Bearer ${KEY}`), env: { STINT_URL: baseUrl, STINT_API_KEY: KEY } }
})

describe("alerts of a platform", () => {
  it.live(
    "fire once when an endpoint's jobs fail, are sent signed until they are received, and are resolved once",
    () =>
      Effect.gen(function*() {
        const hooks = yield* receiver
        const { call, env } = yield* startPlatform(hooks.url)
        const cli = (...args: ReadonlyArray<string>) => Effect.promise(() => runCommand(args, { env }))

        const tested = yield* cli("alerts", "test")
        expect(tested).toMatchObject({ code: 0, stderr: "" })
        expect(tested.stdout).toContain("delivered")
        expect(hooks.received.map(({ message }) => message.type)).toEqual(["alert.test"])

        const endpoint = yield* TestEndpoint.make(call, { id: "failing", maxAttempts: 1 })
        const worker = yield* endpoint.worker("ann")
        for (let job = 0; job < 4; job += 1) {
          yield* endpoint.run(job)
          const { id } = yield* worker.next
          yield* worker.deliver(id, { error: "It is broken." })
        }

        const listed = yield* TestEndpoint.until(
          cli("alerts", "list", "--json"),
          ({ stdout }) => stdout.includes("endpoint_failing")
        )
        expect(JSON.parse(listed.stdout)).toMatchObject({
          configured: true,
          alerts: [{ fingerprint: "endpoint_failing/failing", kind: "endpoint_failing", endpoint: "failing" }],
          receivers: [{ origin: new URL(hooks.url).origin }]
        })
        expect((yield* cli("alerts", "list")).stdout).toContain("stint jobs list failing --status FAILED")

        const messages = () => hooks.received.filter(({ message }) => message.type !== "alert.test")
        yield* TestEndpoint.until(Effect.sync(messages), (all) => all.some(({ message }) => message.type === "alert.resolved"))
        const [firing, resolved, ...more] = messages()
        expect(more).toEqual([])
        expect(firing?.message).toMatchObject({ type: "alert.firing", notice: 1, repeatSeconds: 14_400 })
        expect(firing?.message.summary).toMatch(/^[34] of [34] jobs of endpoint failing failed/)
        expect(resolved?.message).toMatchObject({ type: "alert.resolved", id: firing?.message.id, notice: 2 })
        expect(resolved?.message.resolvedAt).toBeGreaterThan(firing?.message.firedAt ?? Infinity)
        expect(firing?.id).not.toBe(resolved?.id)
        expect(hooks.rejected).toEqual([])
        expect((yield* cli("alerts", "list")).stdout).toContain("No alert is firing.")
      }).pipe(Effect.scoped),
    60_000
  )

  it.live("appear in the event stream, and a test alert reports a receiver that cannot be reached", () =>
    Effect.gen(function*() {
      const { baseUrl, call, env } = yield* startPlatform("http://127.0.0.1:9/closed")
      const tested = yield* Effect.promise(() => runCommand(["alerts", "test"], { env }))
      expect(tested.code).toBe(1)
      expect(tested.stdout).toContain("failed")

      const seen: Array<string> = []
      const controller = new AbortController()
      yield* Effect.addFinalizer(() => Effect.sync(() => controller.abort()))
      const response = yield* Effect.promise(() =>
        fetch(`${baseUrl}/api/v1/events`, { headers: { authorization: `Bearer ${KEY}` }, signal: controller.signal })
      )
      const read = async () => {
        const body = response.body?.pipeThrough(new TextDecoderStream())
        if (body === undefined) return
        for await (const text of body) seen.push(text)
      }
      yield* Effect.forkScoped(Effect.ignore(Effect.tryPromise(read)))

      const endpoint = yield* TestEndpoint.make(call, { id: "failing", maxAttempts: 1 })
      const worker = yield* endpoint.worker("ann")
      for (let job = 0; job < 3; job += 1) {
        yield* endpoint.run(job)
        const { id } = yield* worker.next
        yield* worker.deliver(id, { error: "It is broken." })
      }
      yield* TestEndpoint.until(Effect.sync(() => seen.join("")), (text) => text.includes("event: alert.resolved"))
      const kinds = Array.from(seen.join("").matchAll(/^event: (.*)$/gm), ([, kind]) => kind)
      expect(kinds.filter((kind) => kind === "alert.fired")).toHaveLength(1)
      expect(kinds.filter((kind) => kind === "job.ended")).toHaveLength(3)
      expect(kinds).toContain("endpoint.changed")
      expect(kinds).toContain("worker.ready")
    }).pipe(Effect.scoped), 60_000)

  it.live("are off without receivers, and the commands say how to configure them", () =>
    Effect.gen(function*() {
      const dataDir = yield* folder
      const env = { PORT: "0", STINT_DATA_DIR: dataDir }
      const settings = yield* PlatformConfig.load.pipe(
        Effect.provideService(Environment, env),
        Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))
      )
      expect(Option.isNone(yield* AlertConfig.complete(settings.alerts))).toBe(true)
      const context = yield* Layer.build(Platform.layer({
        settings,
        secrets: AccessKeys.secretsOf(Redacted.make(KEY)),
        store: "memory",
        dataDir,
        endpoints: []
      }))
      const url = yield* Effect.provide(Server.baseUrl, context)
      const run = (...args: ReadonlyArray<string>) =>
        Effect.promise(() => runCommand(args, { env: { STINT_URL: url, STINT_API_KEY: KEY } }))
      expect((yield* run("alerts", "list")).stdout).toContain("Alerts are off.")
      const tested = yield* run("alerts", "test")
      expect(tested.code).toBe(1)
      expect(tested.stderr).toContain("STINT_ALERT_URL")
    }).pipe(Effect.scoped), 30_000)
})
