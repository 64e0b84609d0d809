/**
 * Why a download failed. The messages never contain a URL's query or password.
 */
import * as GuardedHttpError from "@stint/http-guard/GuardedHttpError"
import * as Schema from "effect/Schema"

/** The file cannot be written: no space, no permission, no such folder. */
export class WriteFailed extends Schema.TaggedError<WriteFailed>()("WriteFailed", {
  path: Schema.String,
  detail: Schema.String
}) {}

/** The job's files together exceed the limit. */
export class TotalSizeExceeded extends Schema.TaggedError<TotalSizeExceeded>()("TotalSizeExceeded", {
  /** Bytes. */
  limit: Schema.Number
}) {}

/** A network, server or disk error. */
const Reason = Schema.Union([GuardedHttpError.Reason, WriteFailed, TotalSizeExceeded])
/** One of {@link Reason}. */
export type Reason = typeof Reason.Type

const describe = (reason: Reason): string => {
  switch (reason._tag) {
    case "WriteFailed":
      return `it cannot be written to ${reason.path} (${reason.detail})`
    case "TotalSizeExceeded":
      return `with it, this job's files exceed the limit of ${reason.limit} bytes`
    default:
      return GuardedHttpError.describe(reason)
  }
}

/** A download failed, after all attempts. Its partial file is removed. */
export class DownloadError extends Schema.TaggedError<DownloadError>()("DownloadError", {
  /** The URL without its query and password. After redirects, it is the URL that failed. */
  url: Schema.String,
  reason: Reason,
  /** The number of attempts. */
  tries: Schema.Int
}) {
  override get message(): string {
    return `Cannot download ${this.url}: ${describe(this.reason)}${this.tries > 1 ? `. Tried ${this.tries} times` : ""}.`
  }
}
