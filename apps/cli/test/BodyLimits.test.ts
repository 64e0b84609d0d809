/**
 * The configurable limits of request bodies.
 */
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import { describe, expect, it } from "vitest"
import * as PlatformConfig from "../src/config/PlatformConfig.ts"
import * as SettingNames from "../src/config/SettingNames.ts"
import { PlatformProcess } from "./PlatformProcess.ts"

const MEBIBYTE = 1024 * 1024

/** The settings of a process with these variables and no others. */
const loadFrom = (env: Record<string, string>) =>
  PlatformConfig.load.pipe(
    Effect.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env }))),
    Effect.provideService(SettingNames.Environment, env)
  )

const load = (env: Record<string, string>) => Effect.runPromise(loadFrom(env))

const refused = (env: Record<string, string>) => Effect.runPromise(Effect.flip(loadFrom(env)))

describe("limits", () => {
  it("are 10 MiB for run, 20 MiB for runsync and results and 1 MiB for a chunk by default, and configurable", async () => {
    expect((await load({})).payloads).toMatchObject({
      runBytes: 10 * MEBIBYTE,
      runsyncBytes: 20 * MEBIBYTE,
      resultBytes: 20 * MEBIBYTE,
      chunkBytes: MEBIBYTE,
      batchBytes: 10 * MEBIBYTE,
      memoryBytes: 512 * MEBIBYTE
    })
    const { payloads } = await load({
      STINT_LIMIT_RUN: "64 MiB",
      STINT_LIMIT_RUNSYNC: "1.5MB",
      STINT_LIMIT_RESULT: "2048",
      STINT_LIMIT_CHUNK: "1KiB",
      STINT_PAYLOADS_MEMORY: "2 GiB"
    })
    expect(payloads).toMatchObject({
      runBytes: 64 * MEBIBYTE,
      runsyncBytes: 1_500_000,
      resultBytes: 2_048,
      chunkBytes: 1_024,
      memoryBytes: 2 * 1024 * MEBIBYTE
    })
  })

  it("are 64 MiB for inputs and outputs when a payload store is configured", async () => {
    const { payloads } = await load({ STINT_PAYLOADS: "dir:payloads", STINT_LIMIT_RUN: "30 MiB" })
    expect(payloads).toMatchObject({
      runBytes: 30 * MEBIBYTE,
      runsyncBytes: 64 * MEBIBYTE,
      resultBytes: 64 * MEBIBYTE,
      chunkBytes: MEBIBYTE,
      batchBytes: 10 * MEBIBYTE,
      threshold: 256 * 1024
    })
  })

  it("prevent startup and name the variable when a limit is not a size, is too small, or is larger than a string can be", async () => {
    for (
      const name of ["STINT_LIMIT_RUN", "STINT_LIMIT_RUNSYNC", "STINT_LIMIT_RESULT", "STINT_LIMIT_CHUNK", "STINT_LIMIT_BATCH"]
    ) {
      for (const value of ["much", "10 MiBs", "-1", "1023", "201 MiB", "1.0001 KiB"]) {
        const failure = await refused({ [name]: value })
        expect(failure.message, value).toContain(name)
        expect(failure.hint).toContain("1 KiB to 200 MiB")
      }
    }
    expect((await refused({ STINT_PAYLOADS_MEMORY: "1 KiB" })).message).toContain("STINT_PAYLOADS_MEMORY")
  })

  it("of batches are 10 MiB per call, 5,000 requests, 10 batches and 50,000 waiting jobs by default, and configurable", async () => {
    const standard = await load({})
    expect(standard.payloads.batchBytes).toBe(10 * MEBIBYTE)
    expect(standard.batches).toEqual({ batchRequests: 5_000, openBatches: 10, batchQueued: 50_000 })
    const { batches, payloads } = await load({
      STINT_LIMIT_BATCH: "1 MiB",
      STINT_BATCH_REQUESTS: "7",
      STINT_BATCHES: "1",
      STINT_BATCH_QUEUED: "100"
    })
    expect(payloads.batchBytes).toBe(MEBIBYTE)
    expect(batches).toEqual({ batchRequests: 7, openBatches: 1, batchQueued: 100 })
    for (const name of ["STINT_BATCH_REQUESTS", "STINT_BATCHES", "STINT_BATCH_QUEUED"]) {
      for (const value of ["0", "-1", "many", "1.5", "100000000"]) {
        expect((await refused({ [name]: value })).message).toContain(name)
      }
    }
  })

  it("apply to the running platform, and an error names the limit and both remedies", async () => {
    await using platform = await PlatformProcess.create(
      ["serve", "--config", `${import.meta.dirname}/fixtures/stint.config.ts`],
      {
        STINT_LIMIT_RUN: "2 KiB",
        STINT_LIMIT_RUNSYNC: "3 KiB"
      }
    )
    const input = { text: "x".repeat(4_000) }
    for (const [operation, limit] of [["run", 2], ["runsync", 3]] as const) {
      const { body, status } = await platform.request("POST", `/v2/one/${operation}`, { input })
      expect(status).toBe(413)
      expect(body).toMatchObject({
        limit: limit * 1024,
        error: `The body is larger than the limit of ${limit} KiB.`,
        hint: expect.stringMatching(/pass its URL.*STINT_PAYLOADS.*STINT_LIMIT_RUN/)
      })
    }
  }, 60_000)
})
