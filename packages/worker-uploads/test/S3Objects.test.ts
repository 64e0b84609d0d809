import { afterAll, beforeAll, describe, expect, it } from "@effect/vitest"
import { S3Server } from "@stint/s3/testing"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { pathToFileURL } from "node:url"
import { Uploads } from "../src/index.ts"
import { bucketEnvironment, fetched, folder, KEY, layer, logged, pattern, withJob } from "./UploadsHarness.ts"

const MIB = 1024 * 1024
/** The smallest part, so that small files have several. */
const PART = 5 * MIB

let server: S3Server.S3Server
beforeAll(async () => {
  server = await S3Server.start({ buckets: ["results", "callers"] })
})
afterAll(() => server.stop())

/** Runs against the real server; the bucket is in its address unless the variables name another. */
const run = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  options: Uploads.LayerOptions = {},
  more: Record<string, string> = {}
) => Effect.suspend(() => Effect.provide(effect, layer({ ...bucketEnvironment(`${server.url}/results`, KEY), ...more }, options)))

const callers = () => ({ ...KEY, bucketName: "callers", endpointUrl: server.url })

const reasonOf = <A, E extends { readonly reason: unknown }, R>(self: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(self), ({ reason }) => reason)

const fileOf = Effect.fnUntraced(function*(name: string, bytes: Uint8Array) {
  const path = join(yield* folder, name)
  yield* Effect.promise(() => writeFile(path, bytes))
  return path
})

describe("an upload to a bucket returns a URL that anyone can fetch", () => {
  it.live.each([0, 1, 100_000, PART - 1, PART, PART + 1, 3 * PART + 12_345])(
    "of a file with %i bytes, the same to the byte",
    (size) =>
      Effect.gen(function*() {
        const bytes = pattern(size)
        const path = yield* fileOf("Foto – 猫 1%2.png", bytes)
        const url = yield* Uploads.file(path).pipe(withJob({ id: "job-7" }))
        const got = yield* fetched(url)
        expect(got.status).toBe(200)
        expect(got.bytes.equals(bytes)).toBe(true)
        expect(got.header("content-type")).toBe("image/png")
        expect(decodeURIComponent(url.pathname)).toBe("/results/job-7/Foto – 猫 1%2.png")
      }).pipe((test) => run(test, { partSize: PART }), Effect.scoped)
  )

  it.live.each([0, 10, PART, 2 * PART + 7])("of %i bytes in memory", (size) =>
    Effect.gen(function*() {
      const bytes = pattern(size)
      const url = yield* Uploads.bytes(bytes, { name: "result.bin" })
      const got = yield* fetched(url)
      expect(got.bytes.equals(bytes)).toBe(true)
      expect(got.header("content-type")).toBe("application/octet-stream")
    }).pipe((test) => run(test, { partSize: PART })))

  it.live.each([0, 10, PART, 2 * PART + 7])("of a stream with %i bytes, in pieces of any size", (size) =>
    Effect.gen(function*() {
      const bytes = pattern(size)
      const cuts = [0, 1, 3, 70_001, PART - 5, PART + 9, size].filter((at) => at <= size).sort((a, b) => a - b)
      const pieces = cuts.map((at, index) => bytes.subarray(at, cuts[index + 1] ?? size))
      const url = yield* Uploads.stream(Stream.fromIterable(pieces), { name: "a.webm" })
      const got = yield* fetched(url)
      expect(got.bytes.equals(bytes)).toBe(true)
      expect(got.header("content-type")).toBe("video/webm")
    }).pipe((test) => run(test, { partSize: PART })))

  it.live("of a string, as UTF-8", () =>
    Effect.gen(function*() {
      const got = yield* fetched(yield* Uploads.bytes("Grüße 🌍"))
      expect(got.bytes.toString()).toBe("Grüße 🌍")
      expect(got.header("content-type")).toBe("text/plain; charset=utf-8")
    }).pipe((test) => run(test)))

  it.live("of a file: address", () =>
    Effect.gen(function*() {
      const path = yield* fileOf("a b#c.json", Buffer.from("{}"))
      const got = yield* fetched(yield* Uploads.file(pathToFileURL(path)))
      expect(got.header("content-type")).toBe("application/json")
    }).pipe((test) => run(test), Effect.scoped))

  it.live("even when many uploads run concurrently", () =>
    Effect.gen(function*() {
      const urls = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, index) => index),
        (index) => Uploads.bytes(`number ${index}`, { name: `${index}.txt` }),
        { concurrency: "unbounded" }
      )
      const texts = yield* Effect.forEach(urls, (url) => Effect.map(fetched(url), ({ bytes }) => bytes.toString()))
      expect(texts).toEqual(urls.map((_, index) => `number ${index}`))
    }).pipe((test) => run(test)))

  it.live("that works for seven days, unless the call asks for less", () =>
    Effect.gen(function*() {
      const week = yield* Uploads.bytes("x")
      expect(week.searchParams.get("X-Amz-Expires")).toBe("604800")
      const minute = yield* Uploads.bytes("x", { expires: "1 minute" })
      expect(minute.searchParams.get("X-Amz-Expires")).toBe("60")
      expect((yield* fetched(minute)).status).toBe(200)
      for (const expires of ["8 days", "100 millis"] as const) {
        expect(yield* reasonOf(Uploads.bytes("x", { expires }))).toMatchObject({ _tag: "BadConfig", setting: "expires" })
      }
    }).pipe((test) => run(test)))

  it.live("and rejects the URL without its signature", () =>
    Effect.gen(function*() {
      const url = yield* Uploads.bytes("x")
      url.searchParams.set("X-Amz-Signature", "0".repeat(64))
      expect((yield* fetched(url)).status).toBe(403)
    }).pipe((test) => run(test)))
})

describe("an object", () => {
  it.live("has the headers and metadata from the call", () =>
    Effect.gen(function*() {
      const url = yield* Uploads.bytes("<p>", {
        key: "pages/one",
        prefix: "site",
        contentType: "text/html",
        contentDisposition: "attachment; filename=\"one.html\"",
        cacheControl: "max-age=60",
        metadata: { job: "7" }
      })
      const { header } = yield* fetched(url)
      expect(url.pathname).toBe("/results/site/pages/one")
      expect(header("content-type")).toBe("text/html")
      expect(header("content-disposition")).toBe("attachment; filename=\"one.html\"")
      expect(header("cache-control")).toBe("max-age=60")
      expect(header("x-amz-meta-job")).toBe("7")
    }).pipe((test) => run(test)))

  it.live("has them when it is sent in parts", () =>
    Effect.gen(function*() {
      const url = yield* Uploads.bytes(pattern(PART + 1), { name: "a.mp4", metadata: { job: "7" } })
      const { header } = yield* fetched(url)
      expect(header("content-type")).toBe("video/mp4")
      expect(header("x-amz-meta-job")).toBe("7")
    }).pipe((test) => run(test, { partSize: PART })))

  it.live("gets a random name with the extension of its type when the call names none", () =>
    Effect.gen(function*() {
      const [one, two] = [
        yield* Uploads.bytes(pattern(4), { contentType: "image/webp" }),
        yield* Uploads.bytes(pattern(4), { contentType: "image/webp" })
      ]
      expect(one.pathname).toMatch(/^\/results\/job-1\/[0-9a-f-]{36}\.webp$/)
      expect(two.pathname).not.toBe(one.pathname)
    }).pipe(withJob({}), (test) => run(test)))

  it.live("without a job does not overwrite another object of the same name", () =>
    Effect.gen(function*() {
      const [one, two] = [yield* Uploads.bytes("1", { name: "a.txt" }), yield* Uploads.bytes("2", { name: "a.txt" })]
      expect((yield* fetched(one)).bytes.toString()).toBe("1")
      expect((yield* fetched(two)).bytes.toString()).toBe("2")
    }).pipe((test) => run(test)))

  it.live("with invalid metadata is rejected before anything is sent", () =>
    Effect.gen(function*() {
      const reason = yield* reasonOf(Uploads.bytes("x", { metadata: { title: "a\r\nx-amz-acl: public-read" } }))
      expect(reason).toMatchObject({ _tag: "BadConfig", setting: "metadata" })
    }).pipe((test) => run(test)))
})

describe("the destination of an upload", () => {
  it.live("comes from the job's s3Config before the environment, with its objectPath before the name", () =>
    Effect.gen(function*() {
      const url = yield* Uploads.bytes("mine", { name: "a.txt" }).pipe(
        withJob({ id: "job-9", s3Config: { ...callers(), objectPath: "/inbox/2026/" } })
      )
      expect(url.pathname).toBe("/callers/inbox/2026/job-9/a.txt")
      expect((yield* fetched(url)).bytes.toString()).toBe("mine")
    }).pipe((test) => run(test)))

  it.live("comes from the credentials of the call before the job's s3Config", () =>
    Effect.gen(function*() {
      const credentials = { ...KEY, endpointUrl: `${server.url}/results` }
      const url = yield* Uploads.bytes("x", { name: "a.txt", credentials }).pipe(withJob({ s3Config: callers() }))
      expect(url.pathname).toBe("/results/job-1/a.txt")
    }).pipe((test) => run(test, {}, { BUCKET_NAME: "callers" })))

  it.live("has the call's bucket, or else BUCKET_NAME, if the address contains none", () =>
    Effect.gen(function*() {
      expect((yield* Uploads.bytes("x", { key: "a" })).pathname).toBe("/callers/a")
      expect((yield* Uploads.bytes("x", { key: "a", bucket: "results" })).pathname).toBe("/results/a")
    }).pipe((test) => run(test, {}, { BUCKET_ENDPOINT_URL: server.url, BUCKET_NAME: "callers" })))

  it.live("ignores the job's s3Config when the layer disables it", () =>
    Effect.gen(function*() {
      const url = yield* Uploads.bytes("x", { key: "a" }).pipe(withJob({ s3Config: callers() }))
      expect(url.pathname).toBe("/results/a")
    }).pipe((test) => run(test, { jobConfig: false })))

  it.live("has the region of BUCKET_REGION when the address contains none", () =>
    Effect.gen(function*() {
      const url = yield* Uploads.bytes("x")
      expect(url.searchParams.get("X-Amz-Credential")).toContain("/eu-north-1/s3/")
    }).pipe((test) => run(test, {}, { BUCKET_REGION: "eu-north-1", AWS_REGION: "us-west-2" })))
})

describe("a storage service that rejects an upload", () => {
  it.live("an unknown key: Denied, with the variables to check", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Uploads.bytes("x"))
      expect(error.reason).toMatchObject({ _tag: "Denied", code: "InvalidAccessKeyId", bucket: "results" })
      expect(error.message).toContain("Check BUCKET_ACCESS_KEY_ID and BUCKET_SECRET_ACCESS_KEY")
    }).pipe((test) => run(test, {}, { BUCKET_ACCESS_KEY_ID: "NOBODY-KNOWS-ME" })))

  it.live("a wrong secret: Denied, with the job's keys to check, and without the secret", () =>
    Effect.gen(function*() {
      const s3Config = { ...callers(), accessSecret: "hunter2hunter2" }
      const { lines, value: error } = yield* logged(Effect.flip(Uploads.bytes(pattern(PART + 1)).pipe(withJob({ s3Config }))))
      expect(error.reason).toMatchObject({ _tag: "Denied", code: "SignatureDoesNotMatch", bucket: "callers" })
      expect(error.message).toContain("Check s3Config.accessId and s3Config.accessSecret")
      const all = JSON.stringify([error, error.message, error.stack, lines])
      expect(all).not.toContain("hunter2")
      expect(all).not.toContain(KEY.accessId)
    }).pipe((test) => run(test, { partSize: PART })))

  it.live("a missing bucket: NoSuchBucket, with what to do", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(Uploads.bytes("x", { bucket: "nowhere" }))
      expect(error.reason).toMatchObject({ _tag: "NoSuchBucket", bucket: "nowhere" })
      expect(error.message).toContain("Create it, or correct BUCKET_NAME or BUCKET_ENDPOINT_URL")
    }).pipe((test) => run(test, {}, { BUCKET_ENDPOINT_URL: server.url })))

  it.live("the bucket of the month, when none is named: NoSuchBucket, with advice to name one", () =>
    Effect.gen(function*() {
      const { lines, value: error } = yield* logged(
        Effect.andThen(Effect.flip(Uploads.bytes("x")), Effect.flip(Uploads.bytes("x")))
      )
      const now = new Date()
      const month = `${String(now.getUTCMonth() + 1).padStart(2, "0")}-${String(now.getUTCFullYear()).slice(2)}`
      expect(error.reason).toMatchObject({ _tag: "NoSuchBucket", bucket: month })
      expect(error.message).toContain("Name one with BUCKET_NAME")
      expect(lines.map(({ level }) => level)).toEqual(["INFO"])
    }).pipe((test) => run(test, {}, { BUCKET_ENDPOINT_URL: server.url })))
})

it.live("the span `upload` contains the key, the destination and the size, and no secret", () =>
  Effect.gen(function*() {
    const spans: Array<Tracer.NativeSpan> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        spans.push(span)
        return span
      }
    })
    yield* Uploads.bytes("12345", { key: "a/b.txt" }).pipe(Effect.withTracer(tracer))
    const [span] = spans.filter(({ name }) => name === "upload")
    expect(Object.fromEntries(span?.attributes ?? [])).toEqual({
      key: "a/b.txt",
      bucket: "results",
      endpoint: server.url,
      bytes: 5
    })
  }).pipe((test) => run(test)))
