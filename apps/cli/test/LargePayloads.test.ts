/**
 * Large payloads across restarts of a platform, stored in a folder.
 */
import { once } from "node:events"
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { FIXTURES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

const CONFIG = ["serve", "--config", join(FIXTURES, "large.config.ts")]
const KIBIBYTE = 1024
const MEBIBYTE = 1024 * KIBIBYTE

/** A payload folder that is removed after the test. */
const folder = async (): Promise<AsyncDisposable & { readonly path: string }> => {
  const path = await mkdtemp(join(tmpdir(), "stint-payloads-e2e-"))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

/** The paths of the objects in a payload folder. */
const objectsIn = async (path: string): Promise<ReadonlyArray<string>> => {
  const all = await readdir(path, { recursive: true, withFileTypes: true })
  return all.filter((one) => one.isFile() && !one.name.startsWith(".")).map((one) => join(one.parentPath, one.name))
}

describe("a platform with a payload store", () => {
  it("accepts and returns larger payloads, and callers, event streams and webhooks see no difference", async () => {
    await using payloads = await folder()
    await using platform = await PlatformProcess.create(CONFIG, {
      STINT_PAYLOADS: `dir:${payloads.path}`,
      STINT_WEBHOOKS_ALLOW_PRIVATE: "true"
    })
    expect(platform.output).toContain(payloads.path)
    const received: Array<string> = []
    const receiver = createServer((request, response) => {
      const parts: Array<Buffer> = []
      request.on("data", (part: Buffer) => parts.push(part))
      request.on("end", () => {
        received.push(Buffer.concat(parts).toString())
        response.end()
      })
    })
    receiver.listen(0, "127.0.0.1")
    await once(receiver, "listening")
    const address = receiver.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    try {
      // More than the 10 and 20 MiB that a platform without a payload store allows.
      const text = "x".repeat(12 * MEBIBYTE)
      const { body, status } = await platform.request("POST", "/v2/large/run", {
        input: { text, bytes: 21 * MEBIBYTE },
        webhook: `http://127.0.0.1:${port}/`
      })
      expect(status).toBe(200)
      expect(body).toMatchObject({ status: "IN_QUEUE" })
      const id = /"id":"([^"]+)"/.exec(JSON.stringify(body))?.[1] ?? ""
      const job = await platform.ended("large", id)
      expect(job.status).toBe("COMPLETED")
      const output = { taken: text.length, text: "y".repeat(21 * MEBIBYTE) }
      expect(job.output).toEqual(output)
      const sizes = await Promise.all((await objectsIn(payloads.path)).map(async (file) => (await stat(file)).size))
      expect(sizes.sort((a, b) => a - b).map((size) => Math.floor(size / MEBIBYTE))).toEqual([12, 21])
      expect((await stat(join(platform.dataDir, "stint.db"))).size).toBeLessThan(MEBIBYTE)

      const stream = (await platform.request("GET", `/v2/large/stream/${id}`)).body
      expect(stream).toMatchObject({ status: "COMPLETED", stream: [] })
      const events = await fetch(`${platform.url}/v2/large/events/${id}`, {
        headers: { authorization: `Bearer ${platform.key}` }
      })
      const end = /event: end\ndata: (.*)\n/.exec(await events.text())?.[1] ?? "{}"
      expect(JSON.parse(end)).toMatchObject({ id, status: "COMPLETED", output })

      const delivered = await until("the webhook", async () => received[0])
      expect(JSON.parse(delivered)).toMatchObject({ id, output, input: { text } })
      const list = await platform.request("GET", "/v2/large/requests")
      expect(JSON.stringify(list.body).length).toBeLessThan(2_000)
    } finally {
      receiver.close()
      receiver.closeAllConnections()
    }
  }, 90_000)

  it("refuses to start without its payload store or with a different one, because its rows refer to objects there", async () => {
    await using payloads = await folder()
    await using other = await folder()
    const env = { STINT_PAYLOADS: `dir:${payloads.path}` }
    await using platform = await PlatformProcess.create(CONFIG, env)
    await platform.end("SIGTERM")
    const start = (more: Record<string, string>) =>
      stint(undefined, CONFIG, { STINT_DATA_DIR: platform.dataDir, PORT: "0", ...more })
    const without = await start({})
    expect(without.code).not.toBe(0)
    expect(without.stderr).toContain(`dir:${payloads.path}`)
    expect(without.stderr).toContain("STINT_PAYLOADS")
    const elsewhere = await start({ STINT_PAYLOADS: `dir:${other.path}` })
    expect(elsewhere.code).not.toBe(0)
    expect(elsewhere.stderr).toContain(`dir:${other.path}`)
    expect(JSON.parse(await readFile(join(platform.dataDir, "payloads.json"), "utf8"))).toMatchObject({
      location: `dir:${payloads.path}`
    })
    await platform.start()
    expect(await platform.runSync("large", { text: "x", bytes: 300 * KIBIBYTE })).toMatchObject({ status: "COMPLETED" })
  }, 60_000)

  it("deletes its objects when it stops, if its jobs are in memory", async () => {
    await using payloads = await folder()
    await using platform = await PlatformProcess.create(["dev", join(FIXTURES, "large.ts"), "--name", "large"], {
      STINT_PAYLOADS: `dir:${payloads.path}`
    })
    expect(await platform.runSync("large", { text: "x", bytes: 300 * KIBIBYTE })).toMatchObject({ status: "COMPLETED" })
    expect(await objectsIn(payloads.path)).toHaveLength(1)
    await platform.end("SIGTERM")
    expect(await objectsIn(payloads.path)).toEqual([])
  }, 60_000)
})

describe("the settings of a payload store", () => {
  it("prevent startup and name the variable when they are invalid or incomplete, and never show the secret", async () => {
    const start = (env: Record<string, string>) =>
      stint(undefined, ["serve"], { PORT: "0", STINT_DATA_DIR: "/nowhere/at/all", ...env })
    const cases: ReadonlyArray<readonly [env: Record<string, string>, said: string]> = [
      [{ STINT_PAYLOADS: "/srv/payloads" }, "dir:/srv/payloads or s3://bucket/prefix"],
      [{ STINT_PAYLOADS: "s3://Bucket_With_Capitals" }, "STINT_PAYLOADS"],
      [{ STINT_PAYLOADS: "s3://payloads/here" }, "STINT_PAYLOADS_ACCESS_KEY_ID is not set"],
      [{ STINT_PAYLOADS: "s3://payloads", STINT_PAYLOADS_ACCESS_KEY_ID: "k" }, "STINT_PAYLOADS_SECRET_ACCESS_KEY is not set"],
      [
        {
          STINT_PAYLOADS: "s3://payloads",
          STINT_PAYLOADS_ACCESS_KEY_ID: "k",
          STINT_PAYLOADS_SECRET_ACCESS_KEY: "keep-this-to-yourself",
          STINT_PAYLOADS_ENDPOINT: "storage.example"
        },
        "STINT_PAYLOADS_ENDPOINT"
      ]
    ]
    for (const [env, said] of cases) {
      const { code, stderr, stdout } = await start(env)
      expect(code).not.toBe(0)
      expect(stderr + stdout).toContain(said)
      expect(stderr + stdout).not.toContain("keep-this-to-yourself")
    }
  }, 60_000)

  it("prevent startup and name the address when the bucket is unreachable, and never show the secret", async () => {
    await using data = await folder()
    const { code, stderr, stdout } = await stint(undefined, ["serve"], {
      PORT: "0",
      STINT_DATA_DIR: data.path,
      STINT_PAYLOADS: "s3://payloads",
      STINT_PAYLOADS_ACCESS_KEY_ID: "k",
      STINT_PAYLOADS_SECRET_ACCESS_KEY: "keep-this-to-yourself",
      STINT_PAYLOADS_ENDPOINT: "http://127.0.0.1:9"
    })
    expect(code).not.toBe(0)
    expect(stderr + stdout).toContain("http://127.0.0.1:9")
    expect(stderr + stdout).toContain("ECONNREFUSED")
    expect(stderr + stdout).not.toContain("keep-this-to-yourself")
  }, 60_000)
})
