import { describe, expect, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import type { S3Error } from "../src/index.ts"
import { fromSdkError } from "../src/S3Error.ts"

const toError = fromSdkError({ accessKeyId: "AKIDEXAMPLE", secretAccessKey: Redacted.make("hunter2hunter2") })

/** An error as the SDK throws it. */
const thrown = (status: number | undefined, fields: Record<string, unknown>, headers: Record<string, string> = {}) => ({
  ...fields,
  $metadata: { attempts: 3, ...(status === undefined ? {} : { httpStatusCode: status }) },
  $response: { headers }
})

describe("the error of an S3 request", () => {
  it.each<[S3Error["kind"], number | undefined, string]>([
    ["NoAnswer", undefined, "ECONNREFUSED"],
    ["NoSuchKey", 404, "NoSuchKey"],
    ["NoSuchBucket", 404, "NoSuchBucket"],
    ["WrongRegion", 400, "AuthorizationHeaderMalformed"],
    ["WrongRegion", 301, "Anything"],
    ["Denied", 403, "AccessDenied"],
    ["Denied", 401, "Anything"],
    ["NotS3", 200, "SyntaxError"],
    ["Rejected", 404, "NotFound"],
    ["Rejected", 503, "SlowDown"]
  ])("is %s for status %s with code %s", (kind, status, code) => {
    expect(toError(thrown(status, { Code: code, message: "why" }))).toMatchObject({ kind, code, attempts: 3 })
  })

  it("carries the region that the storage names", () => {
    expect(toError(thrown(301, { Code: "PermanentRedirect" }, { "x-amz-bucket-region": "eu-west-1" })).region).toBe("eu-west-1")
    expect(toError(thrown(400, { Code: "AuthorizationHeaderMalformed", Region: "eu-west-2" })).region).toBe("eu-west-2")
    expect(toError(thrown(400, { Code: "AuthorizationHeaderMalformed" })).region).toBeUndefined()
  })

  it("contains no part of the key and no more than a short text", () => {
    const error = toError(
      thrown(403, {
        Code: "Denied",
        message: `AKIDEXAMPLE signed with hunter2hunter2.\n${"x".repeat(1_000)}`,
        key: "AKIDEXAMPLE"
      })
    )
    expect(error.message).toMatch(/^Denied: \*\*\* signed with \*\*\*\. x{10,}$/)
    expect(error.text).toHaveLength(300)
    expect(JSON.stringify(error)).not.toMatch(/AKIDEXAMPLE|hunter2/)
  })

  it("can be created from any thrown value", () => {
    expect(toError(undefined)).toMatchObject({ kind: "NoAnswer", code: "Error", text: "" })
    expect(toError(new Error("socket hang up")).message).toBe("socket hang up")
  })
})
