import { describe, expect, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/testing/TestClock"
import * as Destination from "../src/Destination.ts"
import type { Uploads } from "../src/index.ts"
import { layer, withJob } from "./UploadsHarness.ts"

const KEY = { accessId: "AKIDEXAMPLE", accessSecret: "hunter2hunter2" }
const FULL = {
  BUCKET_ENDPOINT_URL: "https://photos.s3.eu-west-1.amazonaws.com",
  BUCKET_ACCESS_KEY_ID: KEY.accessId,
  BUCKET_SECRET_ACCESS_KEY: KEY.accessSecret
}

const environment = (env: Record<string, string>) =>
  Destination.environment.pipe(Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env })))

const resolve = (env: Record<string, string>, choice: Destination.Choice = {}, acceptJobConfig = true) =>
  Effect.flatMap(environment(env), (read) => Destination.resolve(choice, read, acceptJobConfig))

const bucketOf = (...parameters: Parameters<typeof resolve>) =>
  Effect.map(resolve(...parameters), (destination) => {
    if (destination._tag !== "Bucket") throw new Error("it is a folder")
    return destination
  })

const badConfig = <A, E extends { readonly _tag: string; readonly message: string }, R>(self: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(self), (error) => {
    if (!("reason" in error)) throw new Error(error.message)
    expect(error.message).not.toContain(KEY.accessSecret)
    return { reason: error.reason, message: error.message }
  })

// docs/spec/environment.md#other-variables
describe("the variables of a bucket", () => {
  it.effect("all unset: uploads go to a folder", () =>
    Effect.gen(function*() {
      expect(yield* resolve({})).toEqual({ _tag: "Folder" })
      expect(yield* resolve({ BUCKET_ENDPOINT_URL: "", BUCKET_ACCESS_KEY_ID: "  ", AWS_REGION: "eu-west-1" })).toEqual({
        _tag: "Folder"
      })
    }))

  it.effect("all set: uploads go to that bucket", () =>
    Effect.gen(function*() {
      expect(yield* resolve(FULL)).toMatchObject({
        _tag: "Bucket",
        origin: "environment",
        endpoint: "https://s3.eu-west-1.amazonaws.com",
        bucket: "photos",
        region: "eu-west-1",
        pathStyle: false,
        unnamed: false
      })
    }))

  it.effect.each(Destination.VARIABLES)("some set and %s not: BadConfig that names it", (missing) =>
    Effect.gen(function*() {
      const { message, reason } = yield* badConfig(environment({ ...FULL, [missing]: "" }))
      expect(reason).toMatchObject({ _tag: "BadConfig", setting: missing })
      expect(message).toContain(`but ${missing} is not`)
    }))

  it.effect("partly set stop a worker when it starts, not at its first upload", () =>
    Effect.gen(function*() {
      const { reason } = yield* badConfig(Effect.provide(Effect.void, layer({ BUCKET_ENDPOINT_URL: "https://s3.amazonaws.com" })))
      expect(reason).toMatchObject({ _tag: "BadConfig", setting: "BUCKET_ACCESS_KEY_ID" })
    }))

  it.effect.each<[string, Record<string, string>]>([
    ["BUCKET_ENDPOINT_URL", { BUCKET_ENDPOINT_URL: "ftp://storage.example" }],
    ["BUCKET_ENDPOINT_URL", { BUCKET_ENDPOINT_URL: `https://me:${KEY.accessSecret}@storage.example` }],
    ["BUCKET_ENDPOINT_URL", { BUCKET_ENDPOINT_URL: "http://127.0.0.1:9000/no%20bucket" }],
    ["BUCKET_NAME", { BUCKET_NAME: "no/bucket" }]
  ])("wrong: BadConfig that names %s", ([setting, wrong]) =>
    Effect.gen(function*() {
      const { message, reason } = yield* badConfig(environment({ ...FULL, ...wrong }))
      expect(reason).toMatchObject({ _tag: "BadConfig", setting })
      expect(message).toContain(setting)
    }))
})

describe("the region", () => {
  const at = (url: string, more: Record<string, string>) =>
    Effect.map(bucketOf({ ...FULL, BUCKET_ENDPOINT_URL: url, BUCKET_NAME: "b1", ...more }), ({ region }) => region)

  it.effect("is BUCKET_REGION, then the address's, then AWS_REGION, then us-east-1", () =>
    Effect.gen(function*() {
      const all = { BUCKET_REGION: "eu-north-1", AWS_REGION: "us-west-2", AWS_DEFAULT_REGION: "us-west-1" }
      const { BUCKET_REGION: _, ...aws } = all
      expect(yield* at("https://s3.eu-west-1.amazonaws.com", all)).toBe("eu-north-1")
      expect(yield* at("https://s3.eu-west-1.amazonaws.com", aws)).toBe("eu-west-1")
      expect(yield* at("http://127.0.0.1:9000", aws)).toBe("us-west-2")
      expect(yield* at("http://127.0.0.1:9000", { AWS_DEFAULT_REGION: "us-west-1" })).toBe("us-west-1")
      expect(yield* at("http://127.0.0.1:9000", {})).toBe("us-east-1")
    }))

  it.effect("of a caller's bucket is not this machine's", () =>
    Effect.gen(function*() {
      const job = withJob({ s3Config: { ...KEY, bucketName: "theirs", endpointUrl: "https://minio.example" } })
      expect((yield* job(bucketOf({ ...FULL, AWS_REGION: "us-west-2", BUCKET_REGION: "eu-north-1" }))).region).toBe("us-east-1")
    }))
})

describe("an unnamed bucket", () => {
  it.effect("is the month in UTC, MM-YY, as in the original SDK", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(Date.UTC(2026, 8, 30, 23, 59, 59))
      const env = { ...FULL, BUCKET_ENDPOINT_URL: "http://127.0.0.1:9000" }
      expect(yield* bucketOf(env)).toMatchObject({ bucket: "09-26", unnamed: true })
      yield* TestClock.adjust("1 second")
      expect(yield* bucketOf(env)).toMatchObject({ bucket: "10-26", unnamed: true })
    }))
})

// docs/spec/uploads.md#destination
describe("a job's s3Config", () => {
  const s3Config = { ...KEY, bucketName: "theirs", endpointUrl: "https://minio.example", objectPath: "in/../box" }

  it.effect("is used as a whole, without settings from the environment", () =>
    Effect.gen(function*() {
      const bucket = yield* bucketOf(FULL).pipe(withJob({ s3Config }))
      expect(bucket).toMatchObject({ origin: "job", endpoint: "https://minio.example", bucket: "theirs", prefix: "in/box" })
      expect(Redacted.value(bucket.accessSecret)).toBe(KEY.accessSecret)
    }))

  it.effect("hides its secret from logs", () =>
    Effect.gen(function*() {
      const bucket = yield* bucketOf({}).pipe(withJob({ s3Config }))
      expect(JSON.stringify(bucket)).not.toContain(KEY.accessSecret)
    }))

  it.effect("is ignored when it is null", () =>
    Effect.gen(function*() {
      expect(yield* resolve({}).pipe(withJob({ s3Config: null }))).toEqual({ _tag: "Folder" })
    }))

  it.effect.each<[string, unknown]>([
    ["s3Config", KEY.accessSecret],
    ["s3Config.endpointUrl", { ...KEY, bucketName: "theirs" }],
    ["s3Config.bucketName", { ...s3Config, bucketName: { secret: KEY.accessSecret } }],
    ["s3Config.accessSecret", { ...s3Config, accessSecret: [KEY.accessSecret] }],
    ["s3Config.accessSecret", { ...s3Config, accessSecret: "" }],
    ["s3Config.endpointUrl", { ...s3Config, endpointUrl: `ftp://${KEY.accessSecret}` }],
    ["s3Config.bucketName", { ...s3Config, bucketName: "a b" }]
  ])(
    "is BadConfig when it is invalid, names %s, and does not fall back to the environment's bucket",
    ([setting, config]) =>
      Effect.gen(function*() {
        const { message, reason } = yield* badConfig(
          resolve(FULL).pipe(withJob({ s3Config: JSON.parse(JSON.stringify(config)) }))
        )
        expect(reason).toMatchObject({ _tag: "BadConfig", setting })
        expect(message).toContain(setting)
      })
  )
})

describe("the layer", () => {
  it.effect.each<[string, Uploads.LayerOptions]>([
    ["partSize", { partSize: 1024 }],
    ["concurrency", { concurrency: 0 }],
    ["attempts", { attempts: 1.5 }]
  ])("refuses a %s that makes no sense", ([setting, options]) =>
    Effect.gen(function*() {
      const { reason } = yield* badConfig(Effect.provide(Effect.void, layer({}, options)))
      expect(reason).toMatchObject({ _tag: "BadConfig", setting })
    }))
})
