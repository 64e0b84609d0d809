/**
 * `stint doctor` on a data folder and a container engine. Its checks of a database are tested in packages/store-postgres.
 */
import * as Sqlite from "@stint/store-sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import { createServer, type Server } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, beforeEach, describe, expect, it } from "vitest"
import { runCommand } from "./CommandInProcess.ts"
import { HOSTILE } from "./HostileAnswers.ts"

describe("stint doctor", () => {
  let dataDir: string
  const doctor = (...flags: ReadonlyArray<string>) => runCommand(["doctor", ...flags], { env: { STINT_DATA_DIR: dataDir } })
  const database = () => Sqlite.layer({ file: join(dataDir, "stint.db"), durability: "D1" })

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), "stint-doctor-"))
  })
  afterEach(() => rm(dataDir, { recursive: true, force: true }))

  it("checks the file of a stopped platform", async () => {
    await Effect.runPromise(Effect.scoped(Layer.build(database())))
    const { code, stdout } = await doctor("--json")
    const { database: file, findings } = JSON.parse(stdout)
    expect(file).toBe(join(dataDir, "stint.db"))
    // This machine may have an engine.
    expect(findings.slice(0, 2)).toMatchObject([
      { check: "file", state: "ok", found: "undamaged; no platform is running" },
      { check: "disk", state: "ok" }
    ])
    expect(code).toBe(0)
  })

  it("says that a platform is running", async () => {
    const program = Effect.andThen(Layer.build(database()), Effect.promise(() => doctor()))
    const { code, stdout } = await Effect.runPromise(Effect.scoped(program))
    expect(stdout).toMatch(/ok +file +used by .*, which checks it/)
    expect(code).toBe(0)
  })

  it("fails for a damaged file and a missing one, with exit code 1", async () => {
    expect(await doctor()).toMatchObject({ code: 1, stdout: expect.stringContaining("there is no such file") })
    await Effect.runPromise(Effect.scoped(Layer.build(database())))
    await writeFile(join(dataDir, "stint.db"), "not a database".repeat(1_000))
    const { code, stderr, stdout } = await doctor()
    expect(stdout).toMatch(/FAILED {2}file/)
    expect(stderr).toMatch(/1 of [12] checks failed\./)
    expect(code).toBe(1)
  })

  it("fails for a database that cannot be reached, and prints no control characters from its address", async () => {
    const { code, stdout } = await doctor("--database", "postgres://stint@127.0.0.1:1/none")
    expect(stdout).toMatch(/^127\.0\.0\.1:1\/none\nFAILED {2}connection/)
    expect(code).toBe(1)
    const hostile = await doctor("--database", `postgres://stint@127.0.0.1:1/${encodeURIComponent(HOSTILE)}`)
    // eslint-disable-next-line no-control-regex
    expect(hostile.stdout + hostile.stderr).not.toMatch(/[\u0000-\u0009\u000b-\u001f]/)
    expect(await doctor("--database", "mysql://db")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("not a PostgreSQL address")
    })
  })
})

describe("stint doctor: the container engine", () => {
  let dataDir: string
  let socket: string
  let server: Server
  /** The answer to `/version`. */
  let version: unknown

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), "stint-doctor-"))
    socket = join(dataDir, "engine.sock")
    server = createServer((_, response) => void response.end(JSON.stringify(version)))
    await new Promise<void>((listening) => server.listen(socket, listening))
    await Effect.runPromise(Effect.scoped(Layer.build(Sqlite.layer({ file: join(dataDir, "stint.db"), durability: "D1" }))))
  })
  afterEach(async () => {
    server.closeAllConnections()
    await new Promise((closed) => server.close(closed))
    await rm(dataDir, { recursive: true, force: true })
  })

  const podman = (Version: string) => ({ Version, Components: [{ Name: "Podman Engine" }] })

  /** What the doctor says about the engine and the configuration. */
  const doctor = async (config: string | undefined, env: Readonly<Record<string, string>> = { STINT_ENGINE: socket }) => {
    const file = join(dataDir, `${Math.random()}.config.mjs`)
    if (config !== undefined) await writeFile(file, `export default { endpoints: ${config} }`)
    const { code, stdout } = await runCommand(["doctor", "--json", ...(config === undefined ? [] : ["--config", file])], {
      env: { STINT_DATA_DIR: dataDir, ...env }
    })
    const { findings } = JSON.parse(stdout)
    return { code, findings: findings.slice(2) }
  }

  it("names the engine of STINT_ENGINE", async () => {
    version = podman("4.3.1")
    expect(await doctor(undefined)).toEqual({
      code: 0,
      findings: [{ check: "engine", state: "ok", found: `Podman 4.3.1 at ${socket}`, advice: "" }]
    })
    version = { Version: "28.2.2" }
    expect((await doctor(`{ llm: { image: "llm:1", gpus: 1 } }`)).findings).toMatchObject([
      { state: "ok", found: `Docker 28.2.2 at ${socket}` }
    ])
  })

  it("fails when an endpoint of the configuration needs GPUs that the engine cannot give", async () => {
    version = podman("4.3.1")
    expect(await doctor(`{ small: { image: "small:1" }, llm: { image: "llm:1", gpus: 1 } }`)).toEqual({
      code: 1,
      findings: [{
        check: "engine",
        state: "failed",
        found:
          `Podman 4.3.1 at ${socket}; endpoint llm needs GPUs, but Podman 4.3.1 gives no GPUs to containers through its Docker-compatible API`,
        advice: "Install Podman 5.4 or later, or Docker with NVIDIA's container runtime, or run the worker as a command."
      }]
    })
    version = podman("5.4.2")
    expect((await doctor(`{ llm: { image: "llm:1", gpus: 1 } }`)).code).toBe(0)
  })

  it("fails when no engine answers at STINT_ENGINE, or when the configuration cannot be read", async () => {
    const missing = join(dataDir, "missing.sock")
    expect(await doctor(undefined, { STINT_ENGINE: missing })).toMatchObject({
      code: 1,
      findings: [{
        check: "engine",
        state: "failed",
        found: `the container engine does not answer: there is no socket ${missing}`
      }]
    })
    version = podman("5.4.2")
    expect(await doctor("{ llm: { image: 1 } }")).toMatchObject({
      code: 1,
      findings: [{ check: "configuration", state: "failed" }, { check: "engine", state: "ok" }]
    })
  })
})
