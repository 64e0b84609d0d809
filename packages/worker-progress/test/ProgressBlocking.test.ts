import { describe, expect, it } from "@effect/vitest"
import { PlatformStub, WorkerProcess } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import { fileURLToPath } from "node:url"

const BLOCK_MS = 250

// docs/spec/progress.md#reporting-progress
describe("progress of a handler that blocks its thread", () => {
  it.live("each value is sent while the handler blocks, and before the result", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const file = fileURLToPath(new URL("./fixtures/blocking.ts", import.meta.url))
      const worker = yield* Effect.acquireRelease(
        Effect.sync(() => WorkerProcess.start(file, { env: stub.environment({ pingIntervalMs: 100 }) })),
        ({ ended, kill }) => Effect.promise(() => (kill("SIGKILL"), ended))
      )
      yield* Effect.promise(() => stub.until(() => stub.of("ping").length > 0))
      const id = stub.submit({ blockMs: BLOCK_MS })
      expect(yield* Effect.promise(() => stub.resultOf(id))).toEqual({ output: "done" })
      const posts = stub.of("job-done", id)
      expect(posts.map(({ text }) => JSON.parse(text))).toEqual([
        ...[1, 2, 3].map((step) => ({ status: "IN_PROGRESS", output: { step } })),
        { output: "done" }
      ])
      const done = posts.at(-1)?.at ?? 0
      for (const [index, { at, headers, query }] of posts.slice(0, 3).entries()) {
        expect(done - at).toBeGreaterThan((3 - index) * BLOCK_MS - BLOCK_MS / 2)
        expect(headers.authorization).toBe("stub-key")
        expect(query["isStream"]).toBe("false")
      }
      worker.kill("SIGTERM")
      expect(yield* Effect.promise(() => worker.ended)).toMatchObject({ code: 0 })
    }))
})
