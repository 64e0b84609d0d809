/**
 * Uploads outputs that are too large to be returned, and returns their addresses instead (docs/spec/rulings.md#large-results).
 *
 * ```
 *   handler -> output of 31 MB -> uploaded as JSON -> {"output_url": ..., "size": ..., "content_type": ..., "expires_at": ...}
 * ```
 *
 * Callers see the difference, so it is opt-in. Nothing is lost: without a bucket, or if the upload fails, the output is delivered
 * unchanged, and the platform accepts or rejects it.
 */
import * as JobMiddleware from "@stint/worker/JobMiddleware"
import type { Outcome } from "@stint/worker/Outcome"
import * as Effect from "effect/Effect"
import * as Content from "./Content.ts"
import { Uploads } from "./UploadService.ts"
import type { Options } from "./UploadService.ts"

/** Which outputs are uploaded, and how. */
export interface OffloadOptions {
  /**
   * Outputs whose JSON has more bytes than this are uploaded. Default: 19 MiB, which leaves room below the platform's 20 MiB for the envelope of an
   * output. A lower value keeps the platform's store small and costs one request to the storage per output.
   */
  readonly above?: number
  /** Options for the upload. Default: uploaded as `{job id}/output.json`, for 7 days. */
  readonly upload?: Options
}

/** Default of `above`: 20 MiB less 1 MiB for the envelope of an output. */
export const OFFLOAD_ABOVE = 19 * 1024 * 1024

/** The JSON of an output; undefined if it has none, which the delivery reports. */
const jsonOf = (output: unknown): string | undefined => {
  try {
    return JSON.stringify(output)
  } catch {
    return undefined
  }
}

/**
 * Middleware that uploads every output whose JSON has more than `above` bytes, including an aggregated stream and the output of a failed job.
 * Chunks of a stream are delivered unchanged.
 */
export const offload = (
  { above = OFFLOAD_ABOVE, upload = {} }: OffloadOptions = {}
): JobMiddleware.JobMiddleware<never, never, Uploads> =>
  JobMiddleware.unwrap(Effect.map(Uploads, (uploads) => {
    const replaceLarge = Effect.fnUntraced(function*(outcome: Outcome): Effect.fn.Return<Outcome> {
      const text = jsonOf(outcome.output)
      // UTF-8 has at most three bytes per UTF-16 code unit: short strings need not be encoded to be measured.
      if (text === undefined || text.length * 3 <= above) return outcome
      const body = Buffer.from(text)
      if (body.byteLength <= above) return outcome
      const size = `The output has ${body.byteLength} bytes of JSON, more than ${above}`
      return yield* Effect.gen(function*() {
        if ((yield* uploads.destination(upload)) === "Folder") {
          yield* Effect.logWarning(`${size}, and no bucket is configured to upload it to. It is delivered unchanged.`)
          return outcome
        }
        const { bucket, contentType, expiresAt, url } = yield* uploads.store(
          Content.bytes(body),
          { name: "output.json", contentType: "application/json" },
          upload
        )
        yield* Effect.logInfo(`${size}, and was uploaded to bucket "${bucket}". The caller gets its address.`)
        return {
          ...outcome,
          output: {
            output_url: url.href,
            size: body.byteLength,
            content_type: contentType,
            ...(expiresAt === undefined ? {} : { expires_at: expiresAt.toISOString() })
          }
        }
      }).pipe(
        Effect.catch(({ message }) =>
          Effect.as(Effect.logWarning(`${size}, and could not be uploaded, so it is delivered unchanged. ${message}`), outcome)
        )
      )
    })
    return JobMiddleware.make((next, job) => Effect.flatMap(next(job), replaceLarge))
  }))
