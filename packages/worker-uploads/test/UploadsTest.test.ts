import { describe, expect, it } from "@effect/vitest"
import { Handler } from "@stint/worker"
import { WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { UploadError, Uploads } from "../src/index.ts"
import { UploadsTest } from "../src/testing/index.ts"
import { Unreachable } from "../src/UploadError.ts"

const Report = Handler.make("report", {
  input: Schema.Struct({ title: Schema.String }),
  output: Schema.Struct({ url: Schema.URL }),
  error: UploadError,
  run: Effect.fn("report")(function*({ title }) {
    return { url: yield* Uploads.bytes(`<h1>${title}</h1>`, { name: `${title}.html` }) }
  })
})

describe("a test of a handler that uploads", () => {
  it.effect("sees the uploads and the URL that the handler got", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.run(Report, { title: "June" }, { id: "job-1" })
      expect(result).toMatchObject({ status: "COMPLETED", output: { url: new URL("https://uploads.test/job-1/June.html") } })
      const uploaded = yield* UploadsTest.uploaded
      expect(uploaded).toHaveLength(1)
      expect(uploaded[0]).toMatchObject({ name: "June.html", contentType: "text/html; charset=utf-8" })
      expect(new TextDecoder().decode(uploaded[0]?.bytes)).toBe("<h1>June</h1>")
    }).pipe(Effect.provide(UploadsTest.layer)))

  it.effect("can make uploads fail", () =>
    Effect.gen(function*() {
      const reason = new Unreachable({ endpoint: "https://s3.example", problem: "ECONNREFUSED", attempts: 5 })
      yield* UploadsTest.failNext(1, new UploadError({ reason }))
      const first = yield* WorkerTest.run(Report, { title: "June" })
      expect(first.status).toBe("FAILED")
      expect(first.error).toContain("ECONNREFUSED")
      const second = yield* WorkerTest.run(Report, { title: "June" })
      expect(second.status).toBe("COMPLETED")
    }).pipe(Effect.provide(UploadsTest.layer)))
})
