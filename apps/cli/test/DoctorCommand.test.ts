/**
 * `stint doctor` on a data folder. Its checks of a database are tested in packages/store-postgres.
 */
import * as Sqlite from "@stint/store-sqlite"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
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
    expect(JSON.parse(stdout)).toMatchObject({
      database: join(dataDir, "stint.db"),
      findings: [{ check: "file", state: "ok", found: "undamaged; no platform is running" }, { check: "disk", state: "ok" }]
    })
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
    expect(stderr).toContain("1 of 1 checks failed.")
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
