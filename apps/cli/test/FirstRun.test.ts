/**
 * The first steps of a new user: start the platform, paste the curl line, try the examples.
 */
import { execFile, spawnSync } from "node:child_process"
import { readFile } from "node:fs/promises"
import { createServer } from "node:http"
import { createRequire } from "node:module"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { EXAMPLES, PlatformProcess, stint, until } from "./PlatformProcess.ts"

const run = promisify(execFile)

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

  it("runs the pipeline gallery with its test_input.json", async () => {
    const { input } = JSON.parse(await readFile(join(EXAMPLES, "08-pipelines", "test_input.json"), "utf8"))
    const { id, output, status } = await platform.runSync("gallery", input)
    // The names of the files are the idempotency keys of the steps that uploaded them.
    const thumbnails = [0, 1, 2].map((n) =>
      expect.stringMatching(new RegExp(`^memory:${id}/thumbnail\\[${n}\\]\\.jpg\\?bytes=\\d+$`))
    )
    expect({ output, status }).toEqual({ status: "COMPLETED", output: { title: "Colors", thumbnails } })
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
