/**
 * The client with a real platform and real workers: the callers of examples/06-caller, and a platform that is killed during a call.
 */
import { createClient } from "@stint/client"
import { spawn } from "node:child_process"
import { join } from "node:path"
import process from "node:process"
import { describe, expect, it } from "vitest"
import { EXAMPLES, FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

const caller = (platform: PlatformProcess, file: string): Promise<{ readonly code: number | null; readonly output: string }> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [join(EXAMPLES, "06-caller", file)], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { PATH: process.env["PATH"], STINT_URL: platform.url, STINT_API_KEY: platform.key }
    })
    let output = ""
    child.stdout.on("data", (data: Buffer) => (output += data.toString()))
    child.stderr.on("data", (data: Buffer) => (output += data.toString()))
    child.once("error", reject)
    child.once("close", (code) => resolve({ code, output }))
  })

describe("the client", () => {
  it("calls the examples with promises and with Effect, typed by their handlers", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(EXAMPLES, "stint.config.ts")])
    const plain = await caller(platform, "caller.ts")
    expect(plain.output.split("\n")).toEqual([
      "Hello, Ada!",
      "3",
      "2",
      "1",
      "Hello, Grace!",
      "Bonjour, Ada !",
      expect.stringMatching(/^Job sync-\S+ of "layers" FAILED: .*UnknownLanguage/),
      ""
    ])
    expect(plain.code).toBe(0)
    expect(await caller(platform, "caller-effect.ts")).toEqual({
      code: 0,
      output: expect.stringMatching(/^Bonjour, Ada !\nWe greet in .*fr.*\.\n3\n2\n1\n$/)
    })
  }, 60_000)

  it("keeps waiting for a result while the platform is killed and restarted", async () => {
    await using platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")])
    const refused: Array<string> = []
    const client = createClient({
      baseUrl: platform.url,
      apiKey: platform.key,
      fetch: async (...call) => {
        try {
          return await fetch(...call)
        } catch (error) {
          refused.push(String(error))
          throw error
        }
      }
    })
    const slow = client.endpoint("slow")
    const { id } = await slow.run({ n: 1, ms: 3_000 })
    const result = slow.result(id)
    // The rejection is handled where the promise is awaited below.
    result.catch(() => {})
    await until("the job to run", async () => (await slow.status(id)).status === "IN_PROGRESS" ? true : undefined)
    await platform.end("SIGKILL")
    await until("the client to have noticed", () => refused.length >= 2 ? true : undefined)
    await platform.start()
    expect(await result).toMatchObject({ n: 1 })
  }, 60_000)
})
