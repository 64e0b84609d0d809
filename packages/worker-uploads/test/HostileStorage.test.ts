import { describe, expect, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { Uploads } from "../src/index.ts"
import { errorBody, HostileStorage } from "./HostileStorage.ts"
import { bucketEnvironment, folder, layer, logged, pattern, withJob } from "./UploadsHarness.ts"

const MIB = 1024 * 1024
const PART = 5 * MIB
const KEY = { accessId: "AKIDEXAMPLE", accessSecret: "wJalrXUtnFEMI-secret" } as const

/** A hostile storage service, and uploads to it with short timeouts. */
const withStorage = <A, E>(
  test: (storage: HostileStorage) => Effect.Effect<A, E, Uploads.Uploads>,
  options: Uploads.LayerOptions = {}
) =>
  Effect.scoped(Effect.gen(function*() {
    const storage = yield* Effect.acquireRelease(
      Effect.promise(async () => {
        const storage = new HostileStorage()
        await storage.up()
        return storage
      }),
      (storage) => Effect.promise(() => storage.down())
    )
    const uploads = layer(bucketEnvironment(`${storage.url}/results`, KEY), {
      partSize: PART,
      attempts: 2,
      silenceTimeout: "300 millis",
      connectTimeout: "300 millis",
      ...options
    })
    return yield* Effect.provide(test(storage), uploads)
  }))

const until = (storage: HostileStorage, check: () => boolean) => Effect.promise(() => storage.until(check))

describe("a storage service that does not respond", () => {
  it.live("is reported as Unreachable after all attempts, and the error names the address", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        storage.failAlways("put", "hang")
        const error = yield* Effect.flip(Uploads.bytes("x"))
        expect(error.reason).toMatchObject({ _tag: "Unreachable", attempts: 2, endpoint: storage.url })
        expect(error.message).toContain("silent for too long, on 2 tries")
        expect(storage.of("put")).toHaveLength(2)
      })
    ))

  it.live("is Unreachable when it closes every connection", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        storage.failAlways("put", "cut")
        const { reason } = yield* Effect.flip(Uploads.bytes(pattern(MIB)))
        expect(reason).toMatchObject({ _tag: "Unreachable" })
        expect(storage.of("put").length).toBe(2)
      })
    ))

  it.live("is Unreachable when it refuses connections", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        const endpointUrl = storage.url
        yield* Effect.promise(() => storage.down())
        const error = yield* Effect.flip(
          Uploads.bytes("x").pipe(withJob({ s3Config: { ...KEY, bucketName: "b1", endpointUrl } }))
        )
        expect(error.reason).toMatchObject({ _tag: "Unreachable", problem: "ECONNREFUSED" })
        // The scope stops it a second time.
        yield* Effect.promise(() => storage.up())
      })
    ))
})

describe("a storage service in trouble", () => {
  it.live.each<[string, Parameters<HostileStorage["fail"]>[1]]>([
    ["cuts a connection", "cut"],
    ["is silent", "hang"],
    ["answers 503", { status: 503, body: errorBody("SlowDown", "Please reduce your request rate.") }],
    ["answers 500", { status: 500, body: errorBody("InternalError", "We encountered an internal error.") }]
  ])("that %s once receives the same part again", ([, fault]) =>
    withStorage((storage) =>
      Effect.gen(function*() {
        storage.fail("part", fault)
        yield* Uploads.bytes(pattern(PART + 10))
        const parts = storage.of("part").filter(({ abandoned }) => !abandoned).map(({ size, url }) => [
          url.searchParams.get("partNumber"),
          size
        ])
        expect(parts).toContainEqual(["1", PART])
        expect(parts).toContainEqual(["2", 10])
        expect(storage.of("complete")).toHaveLength(1)
        expect(storage.of("abort")).toHaveLength(0)
      })
    ))
})

describe("a multipart upload", () => {
  it.live("is aborted at the storage when it is interrupted, and its requests in flight are cancelled", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        storage.failAlways("part", "hang")
        const fiber = yield* Effect.forkChild(Uploads.bytes(pattern(4 * PART)))
        yield* until(storage, () => storage.of("part").filter(({ size }) => size === PART).length === 2)
        yield* Fiber.interrupt(fiber)
        const aborts = storage.of("abort")
        expect(aborts.map(({ url }) => url.searchParams.get("uploadId"))).toEqual(["upload-1"])
        yield* until(storage, () => storage.of("part").every(({ abandoned }) => abandoned))
        expect(storage.of("part")).toHaveLength(2)
        expect(storage.of("complete")).toHaveLength(0)
      }), { concurrency: 2, silenceTimeout: "30 seconds" }))

  it.live("is aborted when one part is rejected, and sends nothing more", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        storage.fail("part", { status: 403, body: errorBody("AccessDenied", "Access Denied") })
        const error = yield* Effect.flip(Uploads.bytes(pattern(8 * PART)))
        expect(error.reason).toMatchObject({ _tag: "Denied", code: "AccessDenied" })
        expect(error.message).toContain("may put objects into this bucket")
        expect(storage.of("abort")).toHaveLength(1)
        const sent = storage.requests.length
        expect(storage.of("part").length).toBeLessThan(8)
        expect(storage.requests[sent - 1]?.operation).toBe("abort")
      }), { concurrency: 1 }))

  it.live("is aborted when it cannot be completed", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        storage.fail("complete", { status: 400, body: errorBody("InvalidPart", "One of the parts could not be found.") })
        const error = yield* Effect.flip(Uploads.bytes(pattern(PART + 1)))
        expect(error.reason).toMatchObject({
          _tag: "Rejected",
          status: 400,
          problem: "InvalidPart: One of the parts could not be found"
        })
        expect(storage.of("abort")).toHaveLength(1)
      })
    ))

  it.live("warns that parts may remain when its abort fails", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        storage.fail("part", { status: 403, body: errorBody("AccessDenied", "Access Denied") })
        storage.failAlways("abort", { status: 403, body: errorBody("AccessDenied", "Access Denied") })
        const { lines, value } = yield* logged(Effect.flip(Uploads.bytes(pattern(PART + 1))))
        expect(value.reason._tag).toBe("Denied")
        expect(lines.filter(({ level }) => level === "WARN").map(({ message }) => message)).toEqual([
          expect.stringContaining("its parts may remain in bucket \"results\"")
        ])
      })
    ))

  it.live("is aborted when its stream fails, with the stream's own error", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        const data = Stream.concat(Stream.make(pattern(PART)), Stream.fail("the camera broke" as const))
        const error = yield* Effect.flip(Uploads.stream(data))
        expect(error).toBe("the camera broke")
        expect(storage.of("abort")).toHaveLength(1)
        expect(storage.of("complete")).toHaveLength(0)
      })
    ))

  it.live("can be interrupted while its stream emits nothing", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        const closed = yield* Deferred.make<void>()
        const data = Stream.concat(Stream.make(pattern(PART)), Stream.never).pipe(
          Stream.onExit(() => Effect.asVoid(Deferred.succeed(closed, undefined)))
        )
        const fiber = yield* Effect.forkChild(Uploads.stream(data))
        yield* until(storage, () => storage.of("part").length === 1)
        yield* Fiber.interrupt(fiber)
        yield* Deferred.await(closed)
        expect(storage.of("abort")).toHaveLength(1)
      })
    ))

  it.live("ends at once when it is interrupted before it has begun", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        storage.failAlways("create", "hang")
        const fiber = yield* Effect.forkChild(Uploads.bytes(pattern(2 * PART)))
        yield* until(storage, () => storage.of("create").length === 1)
        yield* Fiber.interrupt(fiber)
        yield* until(storage, () => storage.of("create").every(({ abandoned }) => abandoned))
        expect(storage.requests).toHaveLength(1)
      }), { silenceTimeout: "30 seconds" }))

  it.effect("waits at most 15 seconds for its abort", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        storage.failAlways("part", "hang")
        storage.failAlways("abort", "hang")
        const log = yield* Effect.forkChild(logged(Effect.gen(function*() {
          const fiber = yield* Effect.forkChild(Uploads.bytes(pattern(2 * PART)))
          yield* until(storage, () => storage.of("part").length === 2)
          yield* Fiber.interrupt(fiber)
        })))
        yield* until(storage, () => storage.of("abort").length === 1)
        yield* TestClock.adjust("15 seconds")
        const { lines } = yield* Fiber.join(log)
        expect(lines).toEqual([
          expect.objectContaining({ level: "WARN", message: expect.stringContaining("its parts may remain") })
        ])
        yield* until(storage, () => storage.of("abort").every(({ abandoned }) => abandoned))
      }), { silenceTimeout: "30 seconds" }))

  it.live("holds at most one more part in memory than it sends at once", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        storage.failAlways("part", "hang")
        let read = 0
        const data = Stream.fromIterable(Array.from({ length: 40 }, () => pattern(MIB))).pipe(
          Stream.rechunk(1),
          Stream.tap(() => Effect.sync(() => void read++))
        )
        const fiber = yield* Effect.forkChild(Uploads.stream(data))
        yield* until(storage, () => storage.of("part").filter(({ size }) => size === PART).length === 2)
        yield* Fiber.interrupt(fiber)
        expect(read).toBeLessThanOrEqual(3 * 5 + 1)
      }), { concurrency: 2, silenceTimeout: "30 seconds" }))
})

describe("many concurrent uploads", () => {
  it.live("make 48 requests at a time; the wait of the others does not count against the connect timeout", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        storage.failAlways("put", "hold")
        const fiber = yield* Effect.forkChild(
          Effect.forEach(Array.from({ length: 100 }), () => Uploads.bytes("x"), { concurrency: "unbounded" })
        )
        yield* until(storage, () => storage.of("put").length === 48)
        storage.release()
        expect(yield* Fiber.join(fiber)).toHaveLength(100)
        expect(storage.of("put")).toHaveLength(100)
        expect(storage.connections).toBeLessThanOrEqual(48)
      }), { attempts: 1, silenceTimeout: "30 seconds" }))

  it.live("reuse their connections, even for large parts", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        for (let round = 0; round < 3; round++) yield* Uploads.bytes(pattern(3 * PART))
        expect(storage.of("part")).toHaveLength(9)
        expect(storage.connections).toBe(1)
      }), { concurrency: 1 }))
})

describe("a file", () => {
  it.live.each<[string, string]>([
    ["missing.png", "there is no such file (ENOENT)"],
    [".", "it is a folder"]
  ])(
    "is FileUnreadable when it cannot be read, and nothing is sent: %s",
    ([name, problem]) =>
      withStorage((storage) =>
        Effect.scoped(Effect.gen(function*() {
          const path = join(yield* folder, name)
          const error = yield* Effect.flip(Uploads.file(path))
          expect(error.reason).toMatchObject({ _tag: "FileUnreadable", path, problem })
          expect(storage.requests).toEqual([])
        }))
      )
  )

  it.live("is FileUnreadable when it is truncated while it is read, and its upload is aborted", () =>
    withStorage((storage) =>
      Effect.scoped(Effect.gen(function*() {
        const path = join(yield* folder, "growing.bin")
        yield* Effect.promise(() => writeFile(path, pattern(4 * PART)))
        storage.failAlways("part", "hang")
        const fiber = yield* Effect.forkChild(Effect.flip(Uploads.file(path)))
        yield* until(storage, () => storage.of("part").length === 1)
        yield* Effect.promise(() => writeFile(path, "short"))
        storage.failAlways("part", { status: 200, body: "", headers: { etag: "\"1\"" } })
        const error = yield* Fiber.join(fiber)
        expect(error.reason).toMatchObject({ _tag: "FileUnreadable", problem: "it became shorter while it was read" })
        expect(storage.of("abort")).toHaveLength(1)
      })), { concurrency: 1 }))
})

describe("a response from the storage", () => {
  it.live.each<[string, Exclude<Parameters<HostileStorage["fail"]>[1], string>, object, RegExp]>([
    [
      "another region",
      {
        status: 400,
        body: errorBody("AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong", "<Region>eu-west-3</Region>")
      },
      { _tag: "WrongRegion", region: "us-east-1" },
      /Name "eu-west-3" with BUCKET_REGION/
    ],
    [
      "a redirect to a region",
      {
        status: 301,
        body: errorBody("PermanentRedirect", "must be addressed using the specified endpoint"),
        headers: { "x-amz-bucket-region": "eu-west-3" }
      },
      { _tag: "WrongRegion" },
      /Name "eu-west-3"/
    ],
    [
      "a wrong clock",
      { status: 403, body: errorBody("RequestTimeTooSkewed", "The difference is too large.") },
      { _tag: "Denied", code: "RequestTimeTooSkewed" },
      /Set this machine's clock/
    ],
    ["a proxy's page", { status: 403, body: "<html>blocked</html>", headers: { "content-type": "text/html" } }, {
      _tag: "Denied"
    }, /Check/],
    ["a missing page", { status: 404, body: "not here", headers: { "content-type": "text/plain" } }, {
      _tag: "Rejected",
      status: 404
    }, /HTTP 404/],
    [
      "a web site that returns 200 for everything",
      { status: 200, body: "<html>hello</html>" },
      { _tag: "Rejected" },
      /may belong to a web site\./
    ],
    ["no room", {
      status: 507,
      body: errorBody("XMinioStorageFull", "Storage backend has reached its minimum free drive threshold.")
    }, {
      _tag: "Rejected",
      status: 507
    }, /XMinioStorageFull: Storage backend/]
  ])("is explained: %s", ([, fault, reason, advice]) =>
    withStorage((storage) =>
      Effect.gen(function*() {
        storage.failAlways("put", fault)
        const error = yield* Effect.flip(Uploads.bytes("x"))
        expect(error.reason).toMatchObject(reason)
        expect(error.message).toMatch(advice)
      }), { attempts: 1 }))

  it.live("is passed on without the key that it repeats", () =>
    withStorage((storage) =>
      Effect.gen(function*() {
        const text = `key ${KEY.accessId} with secret ${KEY.accessSecret} is no good`
        storage.failAlways("put", { status: 400, body: errorBody("InvalidRequest", text) })
        const { lines, value: error } = yield* logged(
          Uploads.bytes("x").pipe(Effect.tapError((error) => Effect.logError("upload failed", error)), Effect.flip)
        )
        expect(error.message).toContain("key *** with secret *** is no good")
        const all = JSON.stringify([error, error.stack, error.cause, lines])
        expect(lines).toHaveLength(1)
        expect(all).not.toContain(KEY.accessId)
        expect(all).not.toContain(KEY.accessSecret)
      })
    ))
})
