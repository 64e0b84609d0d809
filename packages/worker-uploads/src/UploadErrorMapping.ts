/**
 * Converts the errors of the S3 client to the reasons of an `UploadError`, with a hint that names the setting to correct.
 */
import { FORBIDDEN_ADDRESS } from "@stint/http-guard/GuardedLookup"
import type { S3Error } from "@stint/s3"
import { isTrusted, settingsOf } from "./Destination.ts"
import type { Bucket } from "./Destination.ts"
import { Denied, Forbidden, NoSuchBucket, Rejected, Unreachable, UploadError, WrongRegion } from "./UploadError.ts"
import type { Reason } from "./UploadError.ts"

const keyHint = ({ origin }: Bucket): string => {
  const { accessId, accessSecret } = settingsOf(origin)
  return `Check ${accessId} and ${accessSecret}`
}

const deniedHint = (bucket: Bucket, code: string): string => {
  if (code === "RequestTimeTooSkewed") return "Set this machine's clock: requests are signed with the time."
  if (code === "SignatureDoesNotMatch") {
    return `${keyHint(bucket)}; the secret is wrong, or the region, which is "${bucket.region}" here.`
  }
  return code === "AccessDenied" || code === "Forbidden"
    ? `${keyHint(bucket)}, and that the key may put objects into this bucket.`
    : `${keyHint(bucket)}.`
}

const bucketHint = (bucket: Bucket): string => {
  const { bucketName, endpointUrl } = settingsOf(bucket.origin)
  return bucket.unnamed
    ? `No bucket is configured, so the upload went to the bucket of the month, as in the original SDK. Name one with ${bucketName}, or ` +
      `write it into ${endpointUrl}.`
    : `Create it, or correct ${bucketName} or ${endpointUrl}.`
}

const regionHint = ({ origin }: Bucket, region: string | undefined): string =>
  `Name ${region === undefined ? "its region" : `"${region}"`} ` + (origin === "environment"
    ? "with BUCKET_REGION, or use the address with the region in it in BUCKET_ENDPOINT_URL."
    : `by the address with the region in it in ${settingsOf(origin).endpointUrl}.`)

/** Codes that S3-compatible services return. Any other code may be text from a server that is not a storage service. */
const S3_CODES = new Set([
  "AccessDenied",
  "BadDigest",
  "EntityTooLarge",
  "Forbidden",
  "InternalError",
  "InvalidAccessKeyId",
  "InvalidBucketName",
  "InvalidPart",
  "InvalidRequest",
  "NoSuchUpload",
  "QuotaExceeded",
  "RequestTimeTooSkewed",
  "ServiceUnavailable",
  "SignatureDoesNotMatch",
  "SlowDown"
])

/** An untrusted storage service's response, without its text. */
const unquoted = (code: string): string => S3_CODES.has(code) ? code : "it did not answer as S3 storage does"

const reasonOf = (bucket: Bucket, error: S3Error): Reason => {
  const { attempts, kind, status, text } = error
  const trusted = isTrusted(bucket.origin)
  const code = trusted || S3_CODES.has(error.code) ? error.code : "unknown code"
  const message = trusted || kind === "NoAnswer" ? error.message : unquoted(error.code)
  const region = trusted ? error.region : undefined
  const where = { endpoint: bucket.endpoint, bucket: bucket.bucket }
  switch (kind) {
    case "NoAnswer":
      if (error.code === FORBIDDEN_ADDRESS) return new Forbidden({ endpoint: bucket.endpoint, problem: text })
      return new Unreachable({ endpoint: bucket.endpoint, problem: message, attempts })
    case "NoSuchBucket":
      return new NoSuchBucket({ ...where, hint: bucketHint(bucket) })
    case "WrongRegion":
      return new WrongRegion({ ...where, region: bucket.region, hint: regionHint(bucket, region) })
    case "Denied":
      return new Denied({ ...where, code, hint: deniedHint(bucket, code) })
    default:
      return new Rejected({ ...where, problem: message, ...(status === undefined ? {} : { status }) })
  }
}

/** Converts an error from the bucket's client. */
export const toUploadError = (bucket: Bucket) => (error: S3Error): UploadError =>
  new UploadError({ reason: reasonOf(bucket, error) })
