/**
 * The first steps of a new user: start the platform, paste the curl line, try the examples.
 */
import { execFile, spawnSync } from "node:child_process"
import { readdir, readFile, rm, utimes } from "node:fs/promises"
import { createServer } from "node:http"
import { createRequire } from "node:module"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { EXAMPLES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

const run = promisify(execFile)

/** The `test_input.json` of an example. */
const testInput = async (example: string) => JSON.parse(await readFile(join(EXAMPLES, example, "test_input.json"), "utf8"))

const hasCurl = spawnSync("curl", ["--version"]).status === 0

describe("start", () => {
  let platform: PlatformProcess

  beforeAll(async () => {
    platform = await PlatformProcess.create(["serve", "--config", join(EXAMPLES, "stint.config.ts")], {
      PLATFORM_DOWNLOAD_ALLOW: "127.0.0.0/8"
    })
  })
  afterAll(async () => {
    await platform[Symbol.asyncDispose]()
  })

  it("prints the address, the key and the durability class", () => {
    expect(platform.output).toContain("http://127.0.0.1:")
    expect(platform.output).toContain("D2: acknowledged jobs survive a power failure")
  })

  it("prints a curl line that works when pasted", async ({ skip }) => {
    skip(!hasCurl, "there is no curl on this machine")
    const line = /^ +(curl .+)$/m.exec(platform.output)?.[1] ?? ""
    const { stdout } = await run("sh", ["-c", line])
    expect(JSON.parse(stdout)).toMatchObject({ status: "COMPLETED", output: { greeting: "Hello, Ada!" } })
  })

  it("starts no worker before the first job", async () => {
    const { body } = await platform.request("GET", "/v2/layers/health")
    expect(body).toMatchObject({ workers: { idle: 0, initializing: 0, ready: 0, running: 0 } })
  })

  it("streams a countdown, one chunk per number, and aggregates it", async () => {
    const { code, stdout } = await stint(platform, ["run", "countdown", "--input", "{\"from\":3}", "--stream"])
    expect(stdout.trim().split("\n")).toEqual(["3", "2", "1"])
    expect(code).toBe(0)
    expect(await platform.runSync("countdown", { from: 4 })).toMatchObject({ status: "COMPLETED", output: [4, 3, 2, 1] })
  })

  it("runs an Effect program with its layers, and returns its typed error to the caller", async () => {
    expect(await platform.runSync("layers", { name: "Ada", language: "fr" })).toMatchObject({
      status: "COMPLETED",
      output: { greeting: "Bonjour, Ada !" }
    })
    const failed = await platform.runSync("layers", { name: "Ada", language: "xx" })
    expect(failed.status).toBe("FAILED")
    expect(failed.error).toContain("UnknownLanguage")
    const wrong = await platform.runSync("layers", { name: "" })
    expect(wrong.status).toBe("FAILED")
    expect(wrong.error).toContain("language")
  })

  it("resizes a photo given as base64 and as a URL", async () => {
    const sharp = createRequire(join(EXAMPLES, "04-thumbnails", "handler.ts"))("sharp")
    const photo = await readFile(join(EXAMPLES, "04-thumbnails", "photo.jpg"))
    const server = createServer((_, response) => response.setHeader("content-type", "image/jpeg").end(photo))
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    try {
      const address = server.address()
      const port = typeof address === "object" && address !== null ? address.port : 0
      const job = await platform.runSync("thumbnails", {
        images: [photo.toString("base64"), `http://127.0.0.1:${port}/photo.jpg`],
        width: 200,
        format: "png"
      })
      expect(job.status).toBe("COMPLETED")
      expect(job.output).toMatchObject({
        thumbnails: [{ width: 200, height: 133, type: "image/png" }, { width: 200, height: 133 }]
      })
      // The thumbnail shows the photo: each quarter has the same colours, apart from scaling differences.
      const { thumbnails } = job.output as { thumbnails: ReadonlyArray<{ image: string }> }
      const colours = async (data: Buffer) => [...await sharp(data).resize(4, 4, { fit: "fill" }).removeAlpha().raw().toBuffer()]
      const expected = await colours(photo)
      for (const { image } of thumbnails) {
        const actual = await colours(Buffer.from(image.slice(image.indexOf(",") + 1), "base64"))
        expect(actual.length).toBe(expected.length)
        expect(Math.max(...actual.map((value, index) => Math.abs(value - (expected[index] ?? 0))))).toBeLessThan(12)
      }
    } finally {
      server.close()
    }
  })

  it("runs the pipeline gallery, and its old thumbnails are deleted when the schedule of cleanup fires", async () => {
    const { input } = await testInput("08-pipelines/gallery")
    const { id, output, status } = await platform.runSync("gallery", input)
    const folder = join(EXAMPLES, "08-pipelines/gallery/local_upload", id)
    try {
      const files = [1, 2, 3].map((n) => join(folder, `${n}.jpg`))
      expect({ output, status }).toEqual({
        status: "COMPLETED",
        output: { title: "Colors", thumbnails: files.map((file) => pathToFileURL(file).href) }
      })
      const [old = "", ...others] = files
      await utimes(old, 0, 0)
      const schedule = "/api/v1/endpoints/cleanup/schedules/nightly"
      expect((await platform.request("GET", schedule)).body).toMatchObject({
        spec: { cron: "0 3 * * *", input: { olderThanDays: 30 } },
        updatedBy: "package @stint/examples"
      })
      const { body } = await platform.request("POST", `${schedule}/run-now`)
      expect(await platform.ended("cleanup", String(Reflect.get(Object(body), "id")))).toMatchObject({
        status: "COMPLETED",
        output: { deleted: expect.arrayContaining([`${id}/1.jpg`]) }
      })
      expect((await readdir(folder)).map((name) => join(folder, name)).sort()).toEqual(others)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })

  it("runs the pipeline summary with its test_input.json", async () => {
    const { input } = await testInput("08-pipelines/summary")
    expect(await platform.runSync("summary", input)).toMatchObject({
      status: "COMPLETED",
      output: { to: 2, be: 2, or: 1, not: 1 }
    })
  })

  it("streams the words of the pipeline answer for its test_input.json", async () => {
    const { input } = await testInput("08-pipelines/answer")
    const { code, stdout } = await stint(platform, ["run", "answer", "--input", JSON.stringify(input), "--stream"])
    expect(stdout.trim().split("\n").map((line) => String(JSON.parse(line)).trim())).toEqual([
      "You",
      "asked:",
      "Why",
      "is",
      "the",
      "sky",
      "blue?"
    ])
    expect(code).toBe(0)
  })

  it.each([
    [true, { status: "COMPLETED", output: "tea is on its way" }],
    [false, { status: "FAILED", error: expect.stringContaining("Ada declined the order") }]
  ])("runs the pipeline order with its test_input.json to the decision of a person: %s", async (approved, end) => {
    const { input } = await testInput("08-pipelines/order")
    const run = await platform.run("order", input)
    await until("the order to wait for its approval", async () => {
      const { body } = await platform.request("GET", `/v2/order/steps/${run}`)
      return JSON.stringify(body).includes("\"approval\"") ? true : undefined
    }, 60_000)
    const data = JSON.stringify({ approved, by: "Ada" })
    const { code } = await stint(platform, ["pipelines", "event", "order", "approval", "--key", input.id, "--data", data])
    expect(code).toBe(0)
    expect(await platform.ended("order", run)).toMatchObject(end)
  })

  it("runs cleanup with its test_input.json", async () => {
    const { input } = await testInput("09-nightly")
    expect(await platform.runSync("cleanup", input)).toMatchObject({
      status: "COMPLETED",
      output: { deleted: expect.any(Array) }
    })
  })

  it("scales to zero when idle", async () => {
    await platform.runSync("hello", { name: "Ada" })
    await until("the last worker of hello to be gone", async () => {
      const { body } = await platform.request("GET", "/v2/hello/health")
      const { workers } = body as { workers: Record<string, number> }
      return Object.values(workers).every((count) => count === 0) ? true : undefined
    }, 30_000)
  })
})
