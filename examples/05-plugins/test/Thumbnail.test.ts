/**
 * Tests the handler without a network or a bucket: the test provides other layers for the same services.
 */
import { describe, expect, it } from "@effect/vitest"
import { DownloadsTest } from "@stint/downloads/testing"
import { Progress } from "@stint/worker-progress"
import { UploadsTest } from "@stint/worker-uploads/testing"
import { WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { fileURLToPath } from "node:url"
import sharp from "sharp"
import * as Images from "../Images.ts"
import { Thumbnail } from "../Thumbnail.ts"

const url = new URL("https://example.com/photo.jpg")
const photo = fileURLToPath(new URL("../../04-thumbnails/photo.jpg", import.meta.url))

const layers = Layer.mergeAll(
  UploadsTest.layer,
  DownloadsTest.layer({ [url.href]: photo, "https://example.com/page.html": new TextEncoder().encode("<html>") }),
  Images.layer,
  Progress.layerMemory
)

describe("thumbnail", () => {
  it.effect("returns the URL of the uploaded thumbnail, and reports progress", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.run(Thumbnail, { url, width: 64 })
      expect(result.status).toBe("COMPLETED")
      const [uploaded] = yield* UploadsTest.uploaded
      expect(result.output).toEqual({ url: uploaded?.url })
      const { format, width } = yield* Effect.promise(() => sharp(uploaded?.bytes).metadata())
      expect({ format, width }).toEqual({ format: "jpeg", width: 64 })
      expect((yield* Progress.updates).map(({ value }) => value)).toEqual([{ step: "resize", bytes: expect.any(Number) }])
    }).pipe(Effect.provide(layers)))

  it.effect("fails with UnreadableImage for a file that is not an image", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.run(Thumbnail, { url: new URL("https://example.com/page.html"), width: 64 })
      expect(result.failure?._tag).toBe("UnreadableImage")
      expect(yield* UploadsTest.uploaded).toEqual([])
    }).pipe(Effect.provide(layers)))

  it.effect("rejects an invalid width with the path of the value", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.runJson(Thumbnail, { url: url.href, width: 0 })
      expect(result.error).toMatch(/input\.width: .*got 0/)
    }).pipe(Effect.provide(layers)))
})
