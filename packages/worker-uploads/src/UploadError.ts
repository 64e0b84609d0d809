/**
 * Why an upload failed. No reason contains a secret, or the storage client's error, which contains the key's id and the signed request.
 */
import * as Schema from "effect/Schema"

/** A setting is missing or invalid: a variable, a key of the job's `s3Config`, or an option in the call. Nothing was sent. */
export class BadConfig extends Schema.TaggedError<BadConfig>()("BadConfig", {
  /** The setting: `BUCKET_ACCESS_KEY_ID`, `s3Config.bucketName`, `credentials.endpointUrl`, `expires`. */
  setting: Schema.String,
  /** The problem and the expected value, as sentences. */
  problem: Schema.String
}) {}

/** The file to upload cannot be read. */
export class FileUnreadable extends Schema.TaggedError<FileUnreadable>()("FileUnreadable", {
  path: Schema.String,
  /** Without a full stop: "there is no such file". */
  problem: Schema.String
}) {}

/** The storage rejects the key: it is unknown, its secret is wrong, or it may not write there. */
export class Denied extends Schema.TaggedError<Denied>()("Denied", {
  endpoint: Schema.String,
  bucket: Schema.String,
  /** The storage's error code: `InvalidAccessKeyId`, `SignatureDoesNotMatch`, `AccessDenied`. */
  code: Schema.String,
  /** The remedy, as a sentence. */
  hint: Schema.String
}) {}

/** There is no such bucket at that address. */
export class NoSuchBucket extends Schema.TaggedError<NoSuchBucket>()("NoSuchBucket", {
  endpoint: Schema.String,
  bucket: Schema.String,
  /** The remedy, as a sentence. */
  hint: Schema.String
}) {}

/** The bucket is in a different region from the one the request was signed for. */
export class WrongRegion extends Schema.TaggedError<WrongRegion>()("WrongRegion", {
  endpoint: Schema.String,
  bucket: Schema.String,
  /** The region that was used. */
  region: Schema.String,
  /** The remedy, as a sentence. */
  hint: Schema.String
}) {}

/** On every attempt, there was no response or the connection was lost. */
export class Unreachable extends Schema.TaggedError<Unreachable>()("Unreachable", {
  endpoint: Schema.String,
  /** Without a full stop: "ECONNREFUSED". */
  problem: Schema.String,
  /** The number of attempts. */
  attempts: Schema.Int
}) {}

/** The storage's address is one that this machine does not let callers reach. Nothing was sent. */
export class Forbidden extends Schema.TaggedError<Forbidden>()("Forbidden", {
  endpoint: Schema.String,
  /** Without a full stop: "127.0.0.1 must not be reached: loopback (127.0.0.0/8)". */
  problem: Schema.String
}) {}

/** The storage returned an error, or a response that is not an S3 response. */
export class Rejected extends Schema.TaggedError<Rejected>()("Rejected", {
  endpoint: Schema.String,
  bucket: Schema.String,
  /** Absent if the response was not an S3 response. */
  status: Schema.optionalKey(Schema.Int),
  /** The storage's message, shortened, without a full stop; only its status and code if a caller chose the storage. */
  problem: Schema.String
}) {}

/** The local folder cannot be written. */
export class FolderUnwritable extends Schema.TaggedError<FolderUnwritable>()("FolderUnwritable", {
  folder: Schema.String,
  /** Without a full stop: "ENOSPC". */
  problem: Schema.String
}) {}

/** All reasons. */
export const Reason = Schema.Union([
  BadConfig,
  FileUnreadable,
  Denied,
  NoSuchBucket,
  WrongRegion,
  Unreachable,
  Forbidden,
  Rejected,
  FolderUnwritable
])
/** One of the reasons. */
export type Reason = typeof Reason.Type

/** The variable with the address ranges that callers' storage services may have; the other prefixes work as well. */
const ALLOW_VARIABLE = "PLATFORM_UPLOAD_ALLOW"

const sentence = (reason: Reason): string => {
  switch (reason._tag) {
    case "BadConfig":
      return reason.problem
    case "FileUnreadable":
      return `${reason.path} cannot be uploaded: ${reason.problem}.`
    case "Denied":
      return `The storage at ${reason.endpoint} does not let this key write to bucket "${reason.bucket}" (${reason.code}). ${reason.hint}`
    case "NoSuchBucket":
      return `There is no bucket "${reason.bucket}" at ${reason.endpoint}. ${reason.hint}`
    case "WrongRegion":
      return `Bucket "${reason.bucket}" at ${reason.endpoint} is not in region "${reason.region}". ${reason.hint}`
    case "Unreachable":
      return `The storage at ${reason.endpoint} does not answer: ${reason.problem}, on ${reason.attempts} ` +
        `${reason.attempts === 1 ? "try" : "tries"}. Check the address, and that this machine can reach it.`
    case "Forbidden":
      return `The storage at ${reason.endpoint} is not allowed: ${reason.problem}. The operator of the endpoint can allow the address ` +
        `with ${ALLOW_VARIABLE}.`
    case "Rejected":
      return `The storage at ${reason.endpoint} rejected the upload to bucket "${reason.bucket}": ${reason.problem}` +
        `${reason.status === undefined ? "" : ` (HTTP ${reason.status})`}.`
    case "FolderUnwritable":
      return `The upload folder ${reason.folder} cannot be written: ${reason.problem}.`
  }
}

/** An upload failed; the reason says why. */
export class UploadError extends Schema.TaggedError<UploadError>()("UploadError", {
  reason: Reason
}) {
  override get message(): string {
    return sentence(this.reason)
  }
}

/** Makes the error of a missing or invalid setting. */
export const badConfig = (setting: string, problem: string): UploadError =>
  new UploadError({ reason: new BadConfig({ setting, problem }) })
