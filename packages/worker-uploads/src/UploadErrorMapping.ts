/**
 * Converts the errors of the S3 client to the reasons of an `UploadError`, with a hint that names the setting to correct.
 */
import type { S3Error } from "@stint/s3"
import { settingsOf } from "./Destination.ts"
import type { Bucket } from "./Destination.ts"
import { Denied, NoSuchBucket, Rejected, Unreachable, UploadError, WrongRegion } from "./UploadError.ts"
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
    ? `No bucket is configured, so the upload went to the one of the month, as in the original SDK. Name one with ${bucketName}, or ` +
      `write it into ${endpointUrl}.`
    : `Create it, or correct ${bucketName} or ${endpointUrl}.`
}

const regionHint = ({ origin }: Bucket, region: string | undefined): string =>
  `Name ${region === undefined ? "its region" : `"${region}"`} ` + (origin === "environment"
    ? "with BUCKET_REGION, or use the address with the region in it in BUCKET_ENDPOINT_URL."
    : `by the address with the region in it in ${settingsOf(origin).endpointUrl}.`)

const reasonOf = (bucket: Bucket, error: S3Error): Reason => {
  const { attempts, code, kind, message, region, status } = error
  const where = { endpoint: bucket.endpoint, bucket: bucket.bucket }
  switch (kind) {
    case "NoAnswer":
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

/** Converts an error of the bucket's client. */
export const toUploadError = (bucket: Bucket) => (error: S3Error): UploadError =>
  new UploadError({ reason: reasonOf(bucket, error) })
