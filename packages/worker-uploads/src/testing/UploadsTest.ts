/**
 * Uploads in memory, for tests of handlers: tests can inspect the uploads, and nothing leaves the process.
 *
 * @example
 * ```ts
 * it.effect("returns the uploaded URL", () => Effect.gen(function*() {
 *   const result = yield* WorkerTest.run(Thumbnail, { url, width: 64 })
 *   const [image] = yield* UploadsTest.uploaded
 *   expect(image).toMatchObject({ name: "small.png", contentType: "image/png" })
 * }).pipe(Effect.provide(UploadsTest.layer)))
 * ```
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { UploadError } from "../UploadError.ts"
import { make, resolveObject, Uploads } from "../UploadService.ts"
import type { Options } from "../UploadService.ts"

/** One upload. */
export interface Upload {
  /** The last part of the key. */
  readonly name: string
  /** The object's whole key: the job's id and the name, unless the call specifies another. */
  readonly key: string
  readonly bytes: Uint8Array
  readonly contentType: string
  /** The URL that the handler received. */
  readonly url: URL
  /** The options that the call passed. */
  readonly options: Options
}

/** The test's storage. */
export class UploadsTest extends Context.Service<UploadsTest, {
  /** All uploads, in the order in which they ended. */
  readonly uploaded: Effect.Effect<ReadonlyArray<Upload>>
  /** The next `times` uploads fail with this error. */
  readonly failNext: (times: number, error: UploadError) => Effect.Effect<void>
}>()("@stint/worker-uploads/testing/UploadsTest") {}

const collect = (parts: ReadonlyArray<Uint8Array>) => new Uint8Array(Buffer.concat(parts))

/** Uploads that stay in memory, with URLs of `https://uploads.test/`. Each build of the layer starts empty. */
export const layer: Layer.Layer<Uploads | UploadsTest> = Layer.effectContext(Effect.sync(() => {
  const uploads: Array<Upload> = []
  const faults: Array<UploadError> = []
  const store: Uploads["Service"]["store"] = (content, object, options = {}) =>
    Effect.scoped(Effect.gen(function*() {
      const { contentType, expires, key, name } = yield* resolveObject(object, options)
      const fault = faults.shift()
      if (fault !== undefined) return yield* fault
      const next = yield* content.read(64 * 1024)
      const parts: Array<Uint8Array> = []
      for (let part = yield* next; part !== undefined; part = yield* next) parts.push(part.slice())
      const bytes = collect(parts)
      const url = new URL(`https://uploads.test/${key.split("/").map(encodeURIComponent).join("/")}`)
      uploads.push({ name, key, bytes, contentType, url, options })
      const now = yield* Clock.currentTimeMillis
      return { url, key, bucket: "test", size: bytes.byteLength, contentType, expiresAt: new Date(now + expires * 1000) }
    }))
  return Context.mergeAll(
    Context.make(Uploads, make(store, () => Effect.succeed("Bucket"))),
    Context.make(UploadsTest, {
      uploaded: Effect.sync(() => [...uploads]),
      failNext: (times, error) => Effect.sync(() => void faults.push(...Array.from({ length: times }, () => error)))
    })
  )
}))

/** All uploads so far. */
export const uploaded: Effect.Effect<ReadonlyArray<Upload>, never, UploadsTest> = Effect.flatMap(
  UploadsTest,
  (test) => test.uploaded
)

/** Makes the next uploads fail. */
export const failNext = (times: number, error: UploadError): Effect.Effect<void, never, UploadsTest> =>
  Effect.flatMap(UploadsTest, (test) => test.failNext(times, error))
