/**
 * Secrets of a real platform. Searches for a random value in everything that the platform writes: files, logs, responses, traces.
 */
import { randomBytes } from "node:crypto"
import { cp, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { holdersOf } from "./CanarySearch.ts"
import { runCommand } from "./CommandInProcess.ts"
import { listen, type OtlpCollector } from "./OtlpCollector.ts"
import { FIXTURES, PlatformProcess, until } from "./PlatformProcess.ts"

/** The key of platforms in folders that have none. */
const API_KEY = "a-key-for-this-test"

const newValue = () => `hf_"canary"_${randomBytes(16).toString("hex")}`

const reversed = (text: string) => text.split("").toReversed().join("")

/** Starts `stint serve` with settings that must stop it, and returns what it printed. */
const failToStart = async (dataDir: string, env: Readonly<Record<string, string>> = {}): Promise<string> => {
  const { code, stderr } = await runCommand(["serve"], {
    env: {
      STINT_DATA_DIR: dataDir,
      XDG_CONFIG_HOME: `${dataDir}-config`,
      STINT_API_KEY: API_KEY,
      PORT: "0",
      ...env
    }
  })
  expect(code).toBe(1)
  return stderr
}

describe("secrets of a platform", () => {
  const first = newValue()
  const second = newValue()
  const plain = `not-secret-${randomBytes(16).toString("hex")}`
  const answers: Array<string> = []
  let platform: PlatformProcess
  let folder: string
  let collector: OtlpCollector

  const command = async (args: ReadonlyArray<string>, stdin = "") => {
    const finished = await runCommand(args, {
      stdin,
      env: {
        STINT_URL: platform.url,
        STINT_API_KEY: platform.key,
        XDG_CONFIG_HOME: platform.configDir,
        STINT_DATA_DIR: platform.dataDir
      }
    })
    answers.push(finished.stdout, finished.stderr)
    return finished
  }
  const get = async (path: string) => {
    const { body } = await platform.request("GET", path)
    answers.push(JSON.stringify(body))
    return body
  }

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "stint-secrets-"))
    collector = await listen()
    platform = await PlatformProcess.create(["serve"], collector.variables)
  }, 60_000)
  afterAll(async () => {
    await platform[Symbol.asyncDispose]()
    collector.close()
    await rm(folder, { recursive: true, force: true })
  })

  it("have no key before the first secret is set, and are set from a file or standard input, without a final line break", async () => {
    expect(await readdir(platform.dataDir)).not.toContain("secrets-key")
    expect(await command(["secrets", "set", "hf-token"], "\n")).toMatchObject({ code: 1 })
    expect(await command(["secrets", "set", "hf token"], first)).toMatchObject({ code: 1 })
    const { code, stdout } = await command(["secrets", "set", "hf-token"], `${first}\n`)
    expect(code).toBe(0)
    expect(stdout).toContain("Set the secret \"hf-token\".")
    await writeFile(join(folder, "value"), first)
    expect((await command(["secrets", "set", "hf-token", "--value-file", join(folder, "value")])).stdout)
      .toContain("already had this value")
    expect((await command(["secrets", "set", "pin"], "1234")).stdout).toContain("is not masked")
    const key = join(platform.dataDir, "secrets-key")
    expect((await stat(key)).mode & 0o777).toBe(0o600)
    expect(Buffer.from(await readFile(key, "utf8"), "base64")).toHaveLength(32)
  })

  it("are named by explain while they are missing, and reach the workers as soon as they are set", async () => {
    const created = await command([
      "endpoints",
      "create",
      "leaky",
      "--handler",
      join(FIXTURES, "leaky.ts"),
      "--secret",
      "TOKEN=later",
      "--env",
      `PLAIN=${plain}`,
      // The spans that arrive are those of the platform: what a worker exports by itself is not masked.
      "--env",
      "OTEL_SDK_DISABLED=true",
      "--max-attempts",
      "1",
      "--workers-max",
      "1",
      "--idle-timeout",
      "1h"
    ])
    expect(created.code).toBe(0)
    expect((await command(["endpoints", "show", "leaky"])).stdout).toContain("TOKEN (secret later)")
    const id = await platform.run("leaky", { how: "hash" })
    await until("the reason", async () => {
      const body = await get(`/v2/leaky/status/${id}?explain`)
      return JSON.stringify(body).includes("stint secrets set later") ? true : undefined
    })
    await command(["secrets", "set", "later"], first)
    expect(await platform.ended("leaky", id)).toMatchObject({
      status: "COMPLETED",
      output: { reversed: reversed(first) }
    })
  }, 60_000)

  it("are masked in logs, errors and a worker's last output, and change without a deployment", async () => {
    for (const [how, expected] of [["log", "COMPLETED"], ["throw", "FAILED"], ["exit", "FAILED"]] as const) {
      const id = await platform.run("leaky", { how })
      const job = await platform.ended("leaky", id)
      expect(job.status).toBe(expected)
      if (expected === "FAILED") expect(job.error).toContain("[secret later]")
      await get(`/v2/leaky/status/${id}?explain`)
      const lines = await until(`the log of ${how}`, async () => {
        const text = JSON.stringify(await get(`/v2/leaky/logs/${id}`))
        return how !== "log" || (text.match(/\[secret later\]/g) ?? []).length >= 4 ? text : undefined
      })
      expect(lines).not.toContain(first)
    }
    expect((await command(["secrets", "set", "later"], second)).stdout).toContain("Workers of leaky are replaced")
    await until("a worker with the new value", async () => {
      const { output } = await platform.runSync("leaky", { how: "hash" })
      return JSON.stringify(output) === JSON.stringify({ reversed: reversed(second) }) ? true : undefined
    }, 60_000)
    await platform.ended("leaky", await platform.run("leaky", { how: "throw" }))
    for (
      const path of ["/api/v1/secrets", "/api/v1/endpoints", "/api/v1/endpoints/leaky", "/v2/leaky/requests", "/v2/leaky/health"]
    ) {
      await get(path)
    }
    expect((await command(["secrets", "list"])).stdout).toMatch(/later .* leaky/)
    expect((await command(["secrets", "delete", "later"])).stderr).toContain("is used by leaky")
  }, 120_000)

  it(
    "are in nothing that the platform wrote: database, logs, responses, traces and backups, before and after its end",
    async () => {
      const archive = join(folder, "stint.tar")
      expect((await command(["backup", archive])).code).toBe(0)
      expect((await command(["secrets", "rotate-key"])).stdout).toMatch(
        /secrets are encrypted with the key [0-9a-f]{12} in the file /
      )
      const spans = await until("the span of a failed job", () => {
        const text = JSON.stringify(collector.spans)
        return text.includes("401 Unauthorized: [secret later]") ? text : undefined
      })
      const search = async (value: string) => [
        ...await holdersOf(platform.dataDir, value),
        ...(await readFile(archive)).includes(value) ? [archive] : [],
        ...[platform.output, spans, ...answers].filter((text) =>
          text.includes(value) || text.includes(JSON.stringify(value).slice(1, -1))
        )
      ]
      for (const value of [first, second]) expect(await search(value)).toEqual([])
      // Shows that the search finds values where they are.
      expect((await search(plain)).length).toBeGreaterThan(1)
      const key = (await readFile(join(platform.dataDir, "secrets-key"), "utf8")).trim()
      expect((await readFile(archive)).includes(key)).toBe(false)
      expect([platform.output, ...answers].filter((text) => text.includes(key))).toEqual([])

      expect(await platform.end("SIGTERM")).toMatchObject({ code: 0 })
      for (const value of [first, second]) expect(await search(value)).toEqual([])
    },
    60_000
  )

  it(
    "need their key: the platform does not start with another one, and says which key it needs and where it looked",
    async () => {
      const file = join(platform.dataDir, "secrets-key")
      const key = await readFile(file, "utf8")
      await writeFile(file, `${randomBytes(32).toString("base64")}\n`)
      const wrong = await failToStart(platform.dataDir)
      expect(wrong).toMatch(
        /The secret "hf-token" was encrypted with the key [0-9a-f]{12}, but the file .*secrets-key contains the key [0-9a-f]{12}\./
      )
      expect(wrong).toContain("stint secrets discard")
      await rm(file)
      expect(await failToStart(platform.dataDir)).toContain("secrets-key contains no key.")
      expect(await failToStart(platform.dataDir, { STINT_SECRETS_KEY_FILE: join(folder, "none") })).toContain("does not exist")
      expect(await failToStart(platform.dataDir, { STINT_SECRETS_KEY: "too-short" })).toContain("openssl rand -base64 32")
      expect(await failToStart(platform.dataDir, { STINT_SECRETS_KEY: "a", STINT_SECRETS_KEY_FILE: "b" })).toContain(
        "Unset one of them"
      )
      await writeFile(file, key, { mode: 0o600 })
    },
    60_000
  )

  it("are restored from a backup together with the key from the same time, and are lost without that key", async () => {
    const dataDir = join(folder, "restored")
    const env = { STINT_DATA_DIR: dataDir, XDG_CONFIG_HOME: `${dataDir}-config` }
    // The backup is older than the key rotation, so the current key does not fit.
    expect((await runCommand(["restore", join(folder, "stint.tar")], { env })).code).toBe(0)
    expect(await readdir(dataDir)).not.toContain("secrets-key")
    await cp(join(platform.dataDir, "secrets-key"), join(dataDir, "secrets-key"))
    expect(await failToStart(dataDir)).toContain("was encrypted with the key")

    expect(await runCommand(["secrets", "discard"], { env })).toMatchObject({ code: 1 })
    const discarded = await runCommand(["secrets", "discard", "--yes"], { env })
    expect(discarded.stdout).toContain("Deleted hf-token, later, pin.")

    // A backup of the platform as it is now, restored with its key.
    const archive = join(folder, "second.tar")
    expect((await runCommand(["backup", archive], { env: { STINT_DATA_DIR: platform.dataDir } })).code).toBe(0)
    await using restored = await PlatformProcess.create(["serve"], { STINT_API_KEY: API_KEY }, async (dataDir) => {
      expect((await runCommand(["restore", archive], { env: { STINT_DATA_DIR: dataDir } })).code).toBe(0)
      await cp(join(platform.dataDir, "secrets-key"), join(dataDir, "secrets-key"))
    })
    expect(await restored.runSync("leaky", { how: "hash" })).toMatchObject({
      output: { reversed: reversed(second) }
    })
  }, 120_000)
})
