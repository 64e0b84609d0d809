import { describe, expect, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as fc from "fast-check"
import * as StorageUrl from "../src/StorageUrl.ts"

const parse = (address: string, named?: string) => Result.getOrThrow(StorageUrl.parse(address, named))
const problem = (address: string) => Result.getOrThrow(Result.flip(StorageUrl.parse(address, undefined)))

describe("the region comes from the storage's address", () => {
  it.each<[string, string | undefined]>([
    ["https://s3.eu-west-1.amazonaws.com", "eu-west-1"],
    ["https://s3-eu-west-1.amazonaws.com", "eu-west-1"],
    ["https://s3.amazonaws.com", undefined],
    ["https://photos.s3.amazonaws.com", undefined],
    ["https://photos.s3.ap-southeast-3.amazonaws.com/", "ap-southeast-3"],
    ["https://my.photos.s3-us-west-2.amazonaws.com", "us-west-2"],
    ["https://s3.dualstack.eu-central-1.amazonaws.com", "eu-central-1"],
    ["https://photos.s3.dualstack.eu-central-1.amazonaws.com", "eu-central-1"],
    ["https://s3-fips.us-gov-west-1.amazonaws.com", "us-gov-west-1"],
    ["https://s3-fips.dualstack.us-gov-east-1.amazonaws.com", "us-gov-east-1"],
    ["https://s3.cn-north-1.amazonaws.com.cn", "cn-north-1"],
    ["http://photos.s3-website-eu-west-1.amazonaws.com", "eu-west-1"],
    ["http://photos.s3-website.eu-central-1.amazonaws.com", "eu-central-1"],
    ["https://photos.s3-accelerate.amazonaws.com", undefined],
    ["https://bucket.vpce-1a2b3c-4d5e.s3.us-east-2.vpce.amazonaws.com", "us-east-2"],
    ["https://nyc3.digitaloceanspaces.com", "nyc3"],
    ["https://photos.nyc3.digitaloceanspaces.com", "nyc3"],
    ["https://photos.fra1.cdn.digitaloceanspaces.com", "fra1"],
    ["https://s3.us-west-004.backblazeb2.com", "us-west-004"],
    ["https://photos.s3.eu-central-003.backblazeb2.com", "eu-central-003"],
    ["https://s3.wasabisys.com", undefined],
    ["https://s3.ap-northeast-1.wasabisys.com", "ap-northeast-1"],
    ["https://0123456789abcdef0123456789abcdef.r2.cloudflarestorage.com", "auto"],
    ["https://0123456789abcdef0123456789abcdef.eu.r2.cloudflarestorage.com/photos", "auto"],
    ["https://s3.fr-par.scw.cloud", "fr-par"],
    ["https://photos.s3.nl-ams.scw.cloud", "nl-ams"],
    ["https://s3.gra.io.cloud.ovh.net", "gra"],
    ["https://s3.gra.perf.cloud.ovh.net", "gra"],
    ["https://photos.s3.eu-west-par.io.cloud.ovh.net", "eu-west-par"],
    ["https://s3.bhs.cloud.ovh.net", "bhs"],
    ["https://us-east-1.linodeobjects.com", "us-east-1"],
    ["https://fsn1.your-objectstorage.com", "fsn1"],
    ["https://ewr1.vultrobjects.com", "ewr1"],
    ["https://sos-ch-gva-2.exo.io", "ch-gva-2"],
    ["https://storage.googleapis.com", "auto"],
    ["https://photos.s3.us-south-1.storage.example", "us-south-1"],
    ["https://s3.example.com", undefined],
    ["https://minio.internal:9000", undefined],
    ["http://127.0.0.1:9000", undefined],
    ["http://[::1]:9000", undefined]
  ])("%s: %s", (address, region) => {
    expect(parse(address).region).toBe(region)
  })
})

describe("a bucket in the address is recognised", () => {
  it.each<[string, string | undefined, string, string]>([
    ["https://s3.eu-west-1.amazonaws.com", undefined, "https://s3.eu-west-1.amazonaws.com", ""],
    ["https://photos.s3.eu-west-1.amazonaws.com", "photos", "https://s3.eu-west-1.amazonaws.com", ""],
    ["https://my.photos.s3.eu-west-1.amazonaws.com/2026/", "my.photos", "https://s3.eu-west-1.amazonaws.com", "2026"],
    ["https://s3.eu-west-1.amazonaws.com/photos/a/b", "photos", "https://s3.eu-west-1.amazonaws.com", "a/b"],
    ["http://photos.s3-website-eu-west-1.amazonaws.com", "photos", "http://s3.eu-west-1.amazonaws.com", ""],
    ["https://photos.s3-accelerate.amazonaws.com", "photos", "https://s3-accelerate.amazonaws.com", ""],
    [
      "https://bucket.vpce-1a2b.s3.us-east-2.vpce.amazonaws.com/photos",
      "photos",
      "https://bucket.vpce-1a2b.s3.us-east-2.vpce.amazonaws.com",
      ""
    ],
    ["https://photos.nyc3.digitaloceanspaces.com", "photos", "https://nyc3.digitaloceanspaces.com", ""],
    ["https://photos.nyc3.cdn.digitaloceanspaces.com", "photos", "https://nyc3.digitaloceanspaces.com", ""],
    ["https://nyc3.cdn.digitaloceanspaces.com/photos", "photos", "https://nyc3.digitaloceanspaces.com", ""],
    ["https://abcd1234.r2.cloudflarestorage.com/photos", "photos", "https://abcd1234.r2.cloudflarestorage.com", ""],
    ["https://abcd1234.eu.r2.cloudflarestorage.com/photos", "photos", "https://abcd1234.eu.r2.cloudflarestorage.com", ""],
    ["https://photos.storage.googleapis.com", "photos", "https://storage.googleapis.com", ""],
    ["http://127.0.0.1:9000/photos/a%20b", "photos", "http://127.0.0.1:9000", "a b"],
    ["minio.internal:9000/photos", "photos", "https://minio.internal:9000", ""],
    ["https://S3.EU-West-1.AmazonAWS.com/photos", "photos", "https://s3.eu-west-1.amazonaws.com", ""]
  ])("%s: %s", (address, bucket, url, prefix) => {
    expect(parse(address)).toMatchObject({ bucket, url, prefix })
  })

  it("is overridden by a named bucket", () => {
    expect(parse("https://photos.s3.eu-west-1.amazonaws.com", "other")).toMatchObject({
      bucket: "other",
      url: "https://s3.eu-west-1.amazonaws.com"
    })
    expect(parse("https://abcd1234.r2.cloudflarestorage.com/photos", "other")).toMatchObject({ bucket: "other", prefix: "" })
  })

  it("is not used twice when it is also the named one", () => {
    expect(parse("http://127.0.0.1:9000/photos/raw", "photos")).toMatchObject({
      bucket: "photos",
      url: "http://127.0.0.1:9000",
      prefix: "raw"
    })
  })

  it("is a base path of an unknown host when another bucket is named", () => {
    expect(parse("https://gateway.example/storage/s3/", "photos")).toMatchObject({
      bucket: "photos",
      url: "https://gateway.example/storage/s3",
      prefix: ""
    })
  })
})

describe("buckets are addressed", () => {
  it.each([
    ["https://s3.eu-west-1.amazonaws.com", false],
    ["https://s3.cn-north-1.amazonaws.com.cn", false],
    ["https://nyc3.digitaloceanspaces.com", true],
    ["https://s3.us-west-004.backblazeb2.com", true],
    ["http://127.0.0.1:9000", true],
    ["https://s3.amazonaws.com.example.org", true]
  ])("in the host at AWS, in the path elsewhere: %s", (address, pathStyle) => {
    expect(parse(address).pathStyle).toBe(pathStyle)
  })
})

describe("an invalid address", () => {
  it.each(["ftp://s3.example.com", "http://", "https://%zz", "file:///etc/passwd"])("is rejected: %s", (address) => {
    expect(problem(address)).toBe("is not an http or https address")
  })

  it("is rejected with a password in it, without repeating it", () => {
    expect(problem("https://user:hunter2@s3.example.com")).not.toContain("hunter2")
  })

  it("never makes the parser throw", () => {
    fc.assert(fc.property(fc.string(), fc.option(fc.string(), { nil: undefined }), (address, named) => {
      for (const text of [address, `https://h/${address}`, `https://${address}.s3.amazonaws.com`]) {
        const result = StorageUrl.parse(text, named)
        if (Result.isSuccess(result)) expect(URL.canParse(result.success.url)).toBe(true)
      }
    }))
  })
})
