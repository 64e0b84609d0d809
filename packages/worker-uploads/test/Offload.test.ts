import { describe, expect, it } from "@effect/vitest"
import { Handler } from "@stint/worker"
import { LogMemory, WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import { Uploads } from "../src/index.ts"
import { UploadsTest } from "../src/testing/index.ts"
import { Rejected, UploadError } from "../src/UploadError.ts"
import { folder } from "./UploadsHarness.ts"

const large = { text: "ü".repeat(600), list: [1, 2, 3] }

/** Runs a handler whose outputs above 1000 bytes are offloaded. */
const run = (output: unknown, options: Uploads.OffloadOptions = {}) =>
  Effect.gen(function*() {
    const log = LogMemory.make()
    const offload = Uploads.offload({ above: 1000, ...options })
    const result = yield* WorkerTest.runJson(Handler.fromFunction(() => output), { n: 1 }, { id: "job-3" }, {
      middleware: [offload]
    }).pipe(Effect.provide(log.layer))
    return { result, lines: log.lines }
  })

const memory = UploadsTest.layer

// docs/spec/rulings.md#large-results
describe("an output that is too large", () => {
  it.effect("is uploaded as JSON, and the caller gets its URL", () =>
    Effect.gen(function*() {
      const { lines, result } = yield* run(large)
      const [upload] = yield* UploadsTest.uploaded
      const json = JSON.stringify(large)
      expect(result).toMatchObject({ status: "COMPLETED" })
      expect(result.output).toEqual({
        output_url: upload?.url.href,
        size: Buffer.byteLength(json),
        content_type: "application/json",
        expires_at: new Date(7 * 24 * 60 * 60 * 1000).toISOString()
      })
      expect(upload).toMatchObject({ key: "job-3/output.json", contentType: "application/json" })
      expect(Buffer.from(upload?.bytes ?? []).toString()).toBe(json)
      expect(lines.map(({ level }) => level)).toEqual(["INFO"])
    }).pipe(Effect.provide(memory)))

  it.effect.each<[string, number, number]>([
    ["of exactly the limit is delivered", 1000, 0],
    ["of one byte more is uploaded", 1001, 1]
  ])("%s", ([, bytes, uploads]) =>
    Effect.gen(function*() {
      // The two quotation marks have one byte each; of the other characters, one has one byte and the rest two.
      const output = "ü".repeat(Math.floor((bytes - 2) / 2)) + "x".repeat((bytes - 2) % 2)
      yield* run(output)
      expect(yield* UploadsTest.uploaded).toHaveLength(uploads)
    }).pipe(Effect.provide(memory)))

  it.effect("of a failed job is uploaded, and its error stays", () =>
    Effect.gen(function*() {
      const { result } = yield* run({ error: "no", ...large })
      expect(result).toMatchObject({ status: "FAILED", error: "no", output: { content_type: "application/json" } })
    }).pipe(Effect.provide(memory)))

  it.effect("is delivered unchanged when its upload fails, with a warning", () =>
    Effect.gen(function*() {
      const reason = new Rejected({ endpoint: "https://s3.example", bucket: "b", status: 500, problem: "InternalError" })
      yield* UploadsTest.failNext(1, new UploadError({ reason }))
      const { lines, result } = yield* run(large)
      expect(result).toMatchObject({ status: "COMPLETED", output: large })
      expect(lines).toEqual([expect.objectContaining({ level: "WARN", message: expect.stringContaining("InternalError") })])
    }).pipe(Effect.provide(memory)))

  it.effect("is delivered unchanged without a bucket, with a warning", () =>
    Effect.scoped(Effect.gen(function*() {
      const path = yield* folder
      const { lines, result } = yield* run(large).pipe(
        Effect.provide(Uploads.layerLocal(path))
      )
      expect(result).toMatchObject({ status: "COMPLETED", output: large })
      expect(lines).toEqual([expect.objectContaining({ level: "WARN", message: expect.stringContaining("no bucket") })])
    })))

  it.effect("is left to the worker when JSON cannot represent it", () =>
    Effect.gen(function*() {
      const { result } = yield* run({ big: 1n, text: "x".repeat(2000) })
      expect(result.status).toBe("FAILED")
      expect(result.error).toContain("cannot be written as JSON")
      expect(yield* UploadsTest.uploaded).toEqual([])
    }).pipe(Effect.provide(memory)))

  it.effect("is 19 MiB or larger by default", () =>
    Effect.gen(function*() {
      const { result } = yield* run("x".repeat(Uploads.OFFLOAD_ABOVE - 2), { above: Uploads.OFFLOAD_ABOVE })
      expect(result.output).toHaveLength(Uploads.OFFLOAD_ABOVE - 2)
      yield* WorkerTest.runJson(Handler.fromFunction(() => "x".repeat(Uploads.OFFLOAD_ABOVE - 1)), {}, {}, {
        middleware: [Uploads.offload()]
      })
      expect(yield* UploadsTest.uploaded).toHaveLength(1)
    }).pipe(Effect.provide(memory)))
})
