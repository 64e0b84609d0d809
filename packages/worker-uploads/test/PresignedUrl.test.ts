import { describe, expect, it } from "@effect/vitest"
import * as AddressGuard from "@stint/http-guard/AddressGuard"
import * as GuardedLookup from "@stint/http-guard/GuardedLookup"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Destination from "../src/Destination.ts"
import * as S3Objects from "../src/S3Objects.ts"

const sign = (endpointUrl: string, bucketName: string) =>
  Effect.scoped(Effect.gen(function*() {
    const s3 = yield* S3Objects.make(S3Objects.DEFAULT_TUNING, GuardedLookup.make(Result.getOrThrow(AddressGuard.make())))
    const credentials = { endpointUrl, accessId: "AKIDEXAMPLE", accessSecret: "hunter2hunter2", bucketName }
    const bucket = yield* Destination.bucketOf("options", credentials, undefined, undefined)
    return yield* s3.sign(bucket, "job 1/ü+%.png", 604_800)
  }))

const KEY = "/job%201/%C3%BC%2B%25.png"

describe("the address of an object", () => {
  it.effect.each<[string, string, string, string]>([
    ["https://s3.eu-west-1.amazonaws.com", "photos", "https://photos.s3.eu-west-1.amazonaws.com", KEY],
    ["https://photos.s3-eu-west-1.amazonaws.com", "photos", "https://photos.s3-eu-west-1.amazonaws.com", KEY],
    ["https://s3.eu-west-1.amazonaws.com", "my.photos", "https://s3.eu-west-1.amazonaws.com", `/my.photos${KEY}`],
    ["http://photos.s3-website-eu-west-1.amazonaws.com", "photos", "http://photos.s3.eu-west-1.amazonaws.com", KEY],
    ["https://s3-accelerate.amazonaws.com", "photos", "https://photos.s3-accelerate.amazonaws.com", KEY],
    ["https://s3.dualstack.eu-west-1.amazonaws.com", "photos", "https://photos.s3.dualstack.eu-west-1.amazonaws.com", KEY],
    ["https://s3-fips.us-gov-west-1.amazonaws.com", "photos", "https://photos.s3-fips.us-gov-west-1.amazonaws.com", KEY],
    ["https://s3.cn-north-1.amazonaws.com.cn", "photos", "https://photos.s3.cn-north-1.amazonaws.com.cn", KEY],
    ["https://photos.nyc3.digitaloceanspaces.com", "photos", "https://nyc3.digitaloceanspaces.com", `/photos${KEY}`],
    ["https://abcd1234.r2.cloudflarestorage.com/photos", "photos", "https://abcd1234.r2.cloudflarestorage.com", `/photos${KEY}`],
    ["http://127.0.0.1:9000", "photos", "http://127.0.0.1:9000", `/photos${KEY}`],
    ["https://gateway.example/storage/s3", "photos", "https://gateway.example", `/storage/s3/photos${KEY}`]
  ])("at %s in bucket %s is %s", ([endpoint, bucket, origin, path]) =>
    Effect.gen(function*() {
      const url = yield* sign(endpoint, bucket)
      expect(url.origin).toBe(origin)
      expect(url.pathname).toBe(path)
      expect(url.searchParams.get("X-Amz-Expires")).toBe("604800")
      expect(url.href).not.toContain("hunter2")
    }))

  it.effect("is signed for the region in the storage's address", () =>
    Effect.gen(function*() {
      const url = yield* sign("https://abcd1234.r2.cloudflarestorage.com", "photos")
      expect(url.searchParams.get("X-Amz-Credential")).toMatch(/^AKIDEXAMPLE\/\d{8}\/auto\/s3\/aws4_request$/)
    }))
})
