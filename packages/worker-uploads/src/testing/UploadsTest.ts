/**
 * Uploads in memory, for tests of handlers: what was uploaded can be looked at, and nothing leaves the process.
 *
 * @example
 * ```ts
 * it.effect("answers with the uploaded address", () => Effect.gen(function*() {
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
  /** The object's whole name: the job's id and the name, unless the call said otherwise. */
  readonly key: string
  readonly bytes: Uint8Array
  readonly contentType: string
  /** What the handler got. */
  readonly url: URL
  /** As the call gave them. */
  readonly options: Options
}

/** The other end of the uploads. */
export class UploadsTest extends Context.Service<UploadsTest, {
  /** Everything that was uploaded, in the order in which the uploads ended. */
  readonly uploaded: Effect.Effect<ReadonlyArray<Upload>>
  /** The next `times` uploads fail with this error. */
  readonly failNext: (times: number, error: UploadError) => Effect.Effect<void>
}>()("@stint/worker-uploads/testing/UploadsTest") {}

const collect = (parts: ReadonlyArray<Uint8Array>) => new Uint8Array(Buffer.concat(parts))

/** Uploads that stay in memory, under addresses of `https://uploads.test/`. A new list for each building of the layer. */
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

/** Everything that was uploaded so far. */
export const uploaded: Effect.Effect<ReadonlyArray<Upload>, never, UploadsTest> = Effect.flatMap(
  UploadsTest,
  (test) => test.uploaded
)

/** Makes the next uploads fail. */
export const failNext = (times: number, error: UploadError): Effect.Effect<void, never, UploadsTest> =>
  Effect.flatMap(UploadsTest, (test) => test.failNext(times, error))
