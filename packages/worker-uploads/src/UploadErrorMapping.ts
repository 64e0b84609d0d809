/**
 * What a storage's answer means, in words for whoever has to mend it.
 *
 * The client's errors carry the id of the key, the request as it was signed and the raw response. Nothing of an error is passed on
 * but its code and its sentence, and that without anything that is part of the key.
 */
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import { settingsOf } from "./Destination.ts"
import type { Bucket } from "./Destination.ts"
import { Denied, NoSuchBucket, Rejected, Unreachable, UploadError, WrongRegion } from "./UploadError.ts"
import type { Reason } from "./UploadError.ts"

/** The most characters of what a storage said. */
const MAX_TEXT = 300

interface S3ErrorResponse {
  readonly code: string
  readonly text: string
  /** Undefined: there was no answer. */
  readonly status: number | undefined
  readonly attempts: number
  /** The region that the storage names, where it does. */
  readonly region: string | undefined
}

const stringAt = (value: unknown, key: string): string | undefined =>
  Predicate.hasProperty(value, key) && Predicate.isString(value[key]) && value[key] !== "" ? value[key] : undefined

const numberAt = (value: unknown, key: string): number | undefined =>
  Predicate.hasProperty(value, key) && Predicate.isNumber(value[key]) ? value[key] : undefined

const at = (value: unknown, key: string): unknown => Predicate.hasProperty(value, key) ? value[key] : undefined

const toErrorResponse = (error: unknown, clean: (text: string) => string): S3ErrorResponse => {
  const metadata = at(error, "$metadata")
  const response = at(error, "$response")
  return {
    code: clean(stringAt(error, "Code") ?? stringAt(error, "code") ?? stringAt(error, "name") ?? "Error"),
    text: clean(stringAt(error, "message") ?? "").replaceAll(/\s+/g, " ").slice(0, MAX_TEXT).replace(/[.\s]+$/, ""),
    status: numberAt(metadata, "httpStatusCode") ?? numberAt(response, "statusCode"),
    attempts: numberAt(metadata, "attempts") ?? 1,
    region: stringAt(error, "Region") ?? stringAt(at(response, "headers"), "x-amz-bucket-region")
  }
}

const WRONG_REGION = new Set([
  "PermanentRedirect",
  "TemporaryRedirect",
  "AuthorizationHeaderMalformed",
  "AuthorizationQueryParametersError",
  "IllegalLocationConstraintException"
])

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
    ? `Nobody named a bucket, so it is the month, as in the original SDK. Name one with ${bucketName}, or write it into ${endpointUrl}.`
    : `Create it, or correct ${bucketName} or ${endpointUrl}.`
}

const regionHint = ({ origin }: Bucket, region: string | undefined): string =>
  `Name ${region === undefined ? "its region" : `"${region}"`} ` + (origin === "environment"
    ? "with BUCKET_REGION, or use the address with the region in it in BUCKET_ENDPOINT_URL."
    : `by the address with the region in it in ${settingsOf(origin).endpointUrl}.`)

const reasonOf = (bucket: Bucket, answer: S3ErrorResponse): Reason => {
  const { attempts, code, status, text } = answer
  const where = { endpoint: bucket.endpoint, bucket: bucket.bucket }
  if (status === undefined) {
    const problem = code === "TimeoutError" ? "it was silent for too long" : code === "Error" ? text || code : code
    return new Unreachable({ endpoint: bucket.endpoint, problem, attempts })
  }
  if (code === "NoSuchBucket") return new NoSuchBucket({ ...where, hint: bucketHint(bucket) })
  if (WRONG_REGION.has(code) || status === 301 || status === 307) {
    return new WrongRegion({ ...where, region: bucket.region, hint: regionHint(bucket, answer.region) })
  }
  if (status === 401 || status === 403) return new Denied({ ...where, code, hint: deniedHint(bucket, code) })
  const said = text === "" || text.startsWith(code) ? text || code : `${code}: ${text}`
  return new Rejected({ ...where, status, problem: status < 300 ? `its answer is none of S3 storage: ${said}` : said })
}

/** The error that stands for what the client threw. */
export const toUploadError = (bucket: Bucket) => {
  const secrets = [Redacted.value(bucket.accessSecret), bucket.accessId].filter((one) => one.length > 2)
  const clean = (text: string) => secrets.reduce((left, secret) => left.replaceAll(secret, "***"), text)
  return (error: unknown): UploadError => new UploadError({ reason: reasonOf(bucket, toErrorResponse(error, clean)) })
}
