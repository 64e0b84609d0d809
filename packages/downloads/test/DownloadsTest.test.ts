import { describe, expect, it } from "@effect/vitest"
import { Handler } from "@stint/worker"
import { WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { DownloadError, Downloads } from "../src/index.ts"
import { DownloadsTest } from "../src/testing/index.ts"

const photo = new TextEncoder().encode("pixels")

describe("DownloadsTest", () => {
  it.effect("serves a handler without a network", () =>
    Effect.gen(function*() {
      const url = new URL("https://example.com/photo.png")
      const handler = Handler.make("size", {
        input: Schema.Struct({ url: Schema.URL }),
        output: Schema.String,
        error: DownloadError,
        run: ({ url }) => Effect.map(Downloads.file(url), ({ path }) => readFileSync(path, "utf8"))
      })
      const result = yield* WorkerTest.run(handler, { url }).pipe(Effect.provide(DownloadsTest.layer({ [url.href]: photo })))
      expect(result).toMatchObject({ status: "COMPLETED", output: "pixels" })
    }))

  it.effect("reads a file where the content is a path", () =>
    Effect.gen(function*() {
      const { path } = yield* Downloads.file("https://example.com/me")
      expect(readFileSync(path, "utf8")).toContain("reads a file where")
    }).pipe(Effect.provide(DownloadsTest.layer({ "https://example.com/me": fileURLToPath(import.meta.url) }))))

  it.effect("responds with a status and headers", () =>
    Effect.gen(function*() {
      expect(yield* Downloads.file("https://example.com/a")).toMatchObject({ name: "b.gif", contentType: "image/gif" })
      expect((yield* Effect.flip(Downloads.file("https://example.com/gone"))).reason).toMatchObject({
        _tag: "UnexpectedStatus",
        status: 404
      })
    }).pipe(Effect.provide(DownloadsTest.layer({
      "https://example.com/a": {
        content: photo,
        headers: { "content-type": "image/gif", "content-disposition": "attachment; filename=b.gif" }
      },
      "https://example.com/gone": { status: 404 }
    }))))

  it.effect("fails for an unknown URL, and lists the known ones", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Downloads.file("https://example.com/b"))
      expect(error.message).toBe(
        "Cannot download https://example.com/b: example.com could not be resolved (DownloadsTest.layer does not know " +
          "https://example.com/b; it knows https://example.com/a)."
      )
      expect(error.tries).toBe(1)
    }).pipe(Effect.provide(DownloadsTest.layer({ "https://example.com/a": photo }))))

  it.effect("fails for an invalid URL, as in production", () =>
    Effect.gen(function*() {
      expect((yield* Effect.flip(Downloads.file("photo.png"))).reason._tag).toBe("InvalidUrl")
    }).pipe(Effect.provide(DownloadsTest.layer({}))))
})
