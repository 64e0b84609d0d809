/**
 * The error of a failed S3 request.
 *
 * The SDK's errors contain the id of the key, the signed request and the raw response. Only the error's code, its message and a few facts are
 * kept, with every part of the key replaced.
 */
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"

/** The maximum length of a message. Characters. */
const MAX_TEXT = 300

/** A request failed after all its attempts. */
export class S3Error extends Schema.TaggedError<S3Error>()("S3Error", {
  /**
   * - `NoAnswer`: no connection, a lost one, or a timeout
   * - `NoSuchKey`, `NoSuchBucket`: the storage works and does not have the object, or the bucket
   * - `WrongRegion`: the request was signed for a region other than the bucket's
   * - `Denied`: 401 or 403
   * - `NotS3`: a success status with a response that is not from S3
   * - `Rejected`: any other error status
   */
  kind: Schema.Literals(["NoAnswer", "NoSuchKey", "NoSuchBucket", "WrongRegion", "Denied", "NotS3", "Rejected"]),
  /** The storage's error code (`InvalidAccessKeyId`), or the connection's (`ECONNREFUSED`). */
  code: Schema.String,
  /** The storage's message, shortened, without a full stop; may be empty. */
  text: Schema.String,
  /** Absent if there was no response. */
  status: Schema.optionalKey(Schema.Int),
  attempts: Schema.Int,
  /** The bucket's region according to the storage; absent if the storage does not name a region. */
  region: Schema.optionalKey(Schema.String)
}) {
  /** Code and text, without a full stop. */
  override get message(): string {
    const { code, kind, text } = this
    if (kind === "NoAnswer") {
      return code === "TimeoutError"
        ? "it was silent for too long"
        : code === "Error"
        ? text || code
        : code
    }
    const detail = text === "" || text.startsWith(code) ? text || code : `${code}: ${text}`
    return kind === "NotS3" ? `its answer is not from S3 storage: ${detail}` : detail
  }
}

const at = (value: unknown, key: string): unknown => Predicate.hasProperty(value, key) ? value[key] : undefined

const stringAt = (value: unknown, key: string): string | undefined => {
  const found = at(value, key)
  return typeof found === "string" && found !== "" ? found : undefined
}

const numberAt = (value: unknown, key: string): number | undefined => {
  const found = at(value, key)
  return typeof found === "number" ? found : undefined
}

const WRONG_REGION = new Set([
  "PermanentRedirect",
  "TemporaryRedirect",
  "AuthorizationHeaderMalformed",
  "AuthorizationQueryParametersError",
  "IllegalLocationConstraintException"
])

const kindOf = (code: string, status: number | undefined): S3Error["kind"] => {
  if (status === undefined) return "NoAnswer"
  if (code === "NoSuchKey" || code === "NoSuchBucket") return code
  if (WRONG_REGION.has(code) || status === 301 || status === 307) return "WrongRegion"
  if (status === 401 || status === 403) return "Denied"
  return status < 300 ? "NotS3" : "Rejected"
}

/** Converts an error that the SDK threw. The key is needed so that it can be removed from the message. */
export const fromSdkError = (
  { accessKeyId, secretAccessKey }: { readonly accessKeyId: string; readonly secretAccessKey: Redacted.Redacted }
) => {
  const secrets = [Redacted.value(secretAccessKey), accessKeyId].filter((one) => one.length > 2)
  const clean = (text: string) =>
    secrets.reduce((rest, secret) => rest.replaceAll(secret, "***"), text).replaceAll(/\s+/g, " ").slice(0, MAX_TEXT)
      .replace(/[.\s]+$/, "")
  return (error: unknown): S3Error => {
    const metadata = at(error, "$metadata")
    const response = at(error, "$response")
    const code = clean(stringAt(error, "Code") ?? stringAt(error, "code") ?? stringAt(error, "name") ?? "Error")
    const status = numberAt(metadata, "httpStatusCode") ?? numberAt(response, "statusCode")
    const region = stringAt(error, "Region") ?? stringAt(at(response, "headers"), "x-amz-bucket-region")
    return new S3Error({
      kind: kindOf(code, status),
      code,
      text: clean(stringAt(error, "message") ?? ""),
      attempts: numberAt(metadata, "attempts") ?? 1,
      ...(status === undefined ? {} : { status }),
      ...(region === undefined ? {} : { region })
    })
  }
}
