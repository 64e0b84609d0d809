/**
 * Storage services that callers choose: by the job's `s3Config`, or by credentials that the handler passes on.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Uploads } from "../src/index.ts"
import { errorBody, HostileStorage } from "./HostileStorage.ts"
import { bucketEnvironment, layer, logged, withJob } from "./UploadsHarness.ts"

const KEY = { accessId: "AKIDEXAMPLE", accessSecret: "wJalrXUtnFEMI-secret" } as const

const storage = Effect.acquireRelease(
  Effect.promise(async () => {
    const storage = new HostileStorage()
    await storage.up()
    return storage
  }),
  (storage) => Effect.promise(() => storage.down())
)

/** One upload to the storage, chosen by each source. */
const uploads = (endpointUrl: string) =>
  [
    ["the job", Uploads.bytes("x").pipe(withJob({ s3Config: { ...KEY, bucketName: "b1", endpointUrl } }))],
    ["the call", Uploads.bytes("x", { credentials: { ...KEY, bucketName: "b1", endpointUrl } })]
  ] as const

const ofOperator = (url: string, allow?: ReadonlyArray<string>) =>
  layer(bucketEnvironment(`${url}/b1`, KEY), { attempts: 1, ...(allow === undefined ? {} : { allow }) })

describe("a storage service that a caller chooses", () => {
  it.live("is not reached when its address is special, in any spelling, and the error says how to allow it", () =>
    Effect.scoped(Effect.gen(function*() {
      const server = yield* storage
      const port = new URL(server.url).port
      for (const host of ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "s3.localhost"]) {
        for (const [source, upload] of uploads(`http://${host}:${port}`)) {
          const error = yield* Effect.flip(upload).pipe(Effect.provide(ofOperator(server.url, [])))
          expect(error.reason._tag, `${host} by ${source}`).toBe("Forbidden")
          expect(error.message).toContain("PLATFORM_UPLOAD_ALLOW")
        }
      }
      expect(server.requests).toEqual([])
      // The operator's own storage has the same address.
      yield* Uploads.bytes("x").pipe(Effect.provide(ofOperator(server.url, [])))
      expect(server.requests).toHaveLength(1)
    })))

  it.live("is reached when PLATFORM_UPLOAD_ALLOW contains its address, and an invalid range prevents the start", () =>
    Effect.scoped(Effect.gen(function*() {
      const server = yield* storage
      const options = { allow: undefined } as unknown as Uploads.LayerOptions
      for (const [, upload] of uploads(server.url)) {
        yield* upload.pipe(Effect.provide(layer({ PLATFORM_UPLOAD_ALLOW: "10.0.0.0/8, 127.0.0.1" }, options)))
      }
      expect(server.requests).toHaveLength(2)
      const error = yield* Effect.flip(
        Uploads.bytes("x").pipe(Effect.provide(layer({ PLATFORM_UPLOAD_ALLOW: "10.1.2.3/8" }, options)))
      )
      expect(error.message).toContain("PLATFORM_UPLOAD_ALLOW")
    })))

  it.live("is not quoted in errors, while the operator's own storage is", () =>
    Effect.scoped(Effect.gen(function*() {
      const server = yield* storage
      const body = errorBody("IntranetCode", "intranet text", "<Region>intranet-region</Region>")
      for (const status of [200, 301, 400, 403, 404, 500]) {
        server.failAlways("put", { status, body, headers: { "x-amz-bucket-region": "intranet-region" } })
        for (const [source, upload] of uploads(server.url)) {
          const { lines, value } = yield* logged(Effect.flip(upload)).pipe(Effect.provide(ofOperator(server.url)))
          const seen = JSON.stringify([value.message, value.reason, lines])
          expect(seen, `${status} by ${source}`).not.toMatch(/intranet/i)
        }
      }
      server.failAlways("put", { status: 400, body })
      const trusted = yield* Effect.flip(Uploads.bytes("x")).pipe(Effect.provide(ofOperator(server.url)))
      expect(trusted.message).toContain("intranet text")
    })))
})
