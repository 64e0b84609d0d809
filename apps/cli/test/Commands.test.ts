/**
 * The CLI as a process: its text and JSON output, and its errors.
 */
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { EXAMPLES, FIXTURES, PlatformProcess, stint } from "./PlatformProcess.ts"

describe("stint", () => {
  let platform: PlatformProcess

  beforeAll(async () => {
    platform = await PlatformProcess.create(["serve", "--config", join(FIXTURES, "stint.config.ts")])
  })
  afterAll(async () => {
    await platform[Symbol.asyncDispose]()
  })

  it("runs a job to its end and prints JSON", async () => {
    const { code, stdout } = await stint(platform, ["run", "slow", "--input", "{\"n\":7}", "--sync", "--json"])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ status: "COMPLETED", output: { n: 7 } })
  })

  it("submits, shows and cancels a job", async () => {
    const submitted = await stint(platform, ["run", "slow", "--input", "{\"ms\":60000}", "--json"])
    const { id } = JSON.parse(submitted.stdout)
    const shown = await stint(platform, ["status", "slow", id])
    expect(shown.stdout).toMatch(/IN_QUEUE|IN_PROGRESS/)
    const cancelled = await stint(platform, ["cancel", "slow", id, "--json"])
    expect(JSON.parse(cancelled.stdout)).toEqual({ id, status: "CANCELLED" })
    const ended = await platform.runSync("slow", { n: 1 })
    const late = await stint(platform, ["cancel", "slow", ended.id])
    expect(late.stdout).toContain("had already ended")
  })

  it("explains why a job waits, as text and as JSON", async () => {
    const file = join(EXAMPLES, "01-hello", "handler.ts")
    expect(await stint(platform, ["endpoints", "create", "resting", "--handler", file, "--workers-max", "0"])).toMatchObject({
      code: 0
    })
    const submitted = await stint(platform, ["run", "resting", "--input", "{}", "--json"])
    const { id } = JSON.parse(submitted.stdout)
    const { stdout } = await stint(platform, ["status", "resting", id, "--explain"])
    expect(stdout).toContain("why      It is first in the queue, and the endpoint is paused: its workers.max is 0.")
    expect(stdout).toContain("place    1 of 1")
    expect(stdout).toContain("workers  none of at most 0")
    const { explain } = JSON.parse((await stint(platform, ["status", "resting", id, "--explain", "--json"])).stdout)
    expect(explain).toMatchObject({ reason: "paused", position: { place: 1, of: 1 } })
    expect((await stint(platform, ["status", "resting", id])).stdout).not.toContain("why")
  })

  it("exits with code 1 and prints the job's error when a job fails", async () => {
    const { code, stderr, stdout } = await stint(platform, ["run", "one", "--input", "{\"crash\":true}", "--sync"])
    expect(code).toBe(1)
    expect(stdout + stderr).toContain("exited with code 42")
    expect(stdout + stderr).toContain("the model file is damaged")
  })

  it("creates, lists, shows and deletes endpoints", async () => {
    const file = join(EXAMPLES, "01-hello", "handler.ts")
    const created = await stint(platform, ["endpoints", "create", "mine", "--handler", file, "--workers-max", "2"])
    expect(created).toMatchObject({ code: 0 })
    const listed = await stint(platform, ["endpoints", "list", "--json"])
    expect(JSON.parse(listed.stdout)).toEqual(expect.arrayContaining([
      expect.objectContaining({ id: "mine", source: { type: "handler", file }, workers: { min: 0, max: 2, idleTimeoutMs: 5000 } })
    ]))
    expect((await stint(platform, ["endpoints", "show", "mine"])).stdout).toContain("0 to 2")
    expect(await platform.runSync("mine", { name: "Ada" })).toMatchObject({ output: { greeting: "Hello, Ada!" } })
    const twice = await stint(platform, ["endpoints", "create", "mine", "--external"])
    expect(twice.code).toBe(1)
    expect(twice.stderr).toContain("already")
    expect((await stint(platform, ["endpoints", "delete", "mine"])).code).toBe(0)
    expect((await stint(platform, ["endpoints", "show", "mine"])).stderr).toContain("no endpoint \"mine\"")
  })

  it("prints the environment of a worker", async () => {
    const { stdout } = await stint(platform, ["worker-env", "joined", "--prefix", "RUNPOD_"])
    const names = stdout.trim().split("\n").map((line) => line.slice(0, line.indexOf("=")))
    expect(names).toEqual(
      expect.arrayContaining(["RUNPOD_WEBHOOK_GET_JOB", "RUNPOD_WEBHOOK_PING", "RUNPOD_AI_API_KEY", "RUNPOD_ENDPOINT_ID"])
    )
    expect(names.every((name) => name.startsWith("RUNPOD_"))).toBe(true)
  })

  it.each([
    [["run", "slow", "--input", "{name: Ada}"], "not JSON"],
    [["run", "slow"], "needs an input"],
    [["run", "nope", "--input", "{}"], "no endpoint \"nope\""],
    [["status", "slow", "nope"], "no job \"nope\""],
    [["endpoints", "create", "bad name", "--external"], "an endpoint id is"],
    [["endpoints", "create", "none"], "exactly one of handler, pipeline, command, image and external"]
  ])("explains what is wrong with %j", async (args, words) => {
    const { code, stderr, stdout } = await stint(platform, args)
    expect(code).toBe(1)
    expect(stderr + stdout).toContain(words)
    expect(stderr + stdout).not.toMatch(/\n\s+at /)
  })

  it("prints a remedy when the key is wrong or missing, or the platform does not respond", async () => {
    expect((await stint(platform, ["endpoints", "list"], { STINT_API_KEY: "wrong-key-wrong-key" })).stderr).toContain(
      "does not know this key"
    )
    expect((await stint(undefined, ["endpoints", "list"], { STINT_DATA_DIR: "/nonexistent" })).stderr).toContain("STINT_API_KEY")
    const unreachable = await stint(undefined, ["endpoints", "list"], {
      STINT_URL: "http://127.0.0.1:9",
      STINT_API_KEY: "sixteen-characters"
    })
    expect(unreachable.code).toBe(1)
    expect(unreachable.stderr).toContain("stint serve")
  })

  it("does not start with an invalid setting, and names it", async () => {
    const { code, stderr } = await stint(undefined, ["serve"], { PORT: "many", STINT_DATA_DIR: platform.dataDir })
    expect(code).toBe(1)
    expect(stderr).toContain("PORT")
    expect(stderr).toContain("0 to 65535")
  })

  it("names the other process when the port or the data folder is in use", async () => {
    const port = await stint(undefined, ["serve"], {
      PORT: String(platform.port),
      STINT_DATA_DIR: join(platform.dataDir, "other")
    })
    expect(port.code).toBe(1)
    expect(port.stdout + port.stderr).toContain(`Port ${platform.port} of 127.0.0.1 is taken`)
    const data = await stint(undefined, ["serve"], { PORT: "0", STINT_DATA_DIR: platform.dataDir })
    expect(data.code).toBe(1)
    expect(data.stdout + data.stderr).toMatch(/is in use by process \d+/)
    expect(port.stderr + data.stderr).not.toMatch(/\n\s+at /)
  })
})
