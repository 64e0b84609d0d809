/**
 * Large results: uploads an output that is too large to be returned, and returns its address instead (docs/spec/rulings.md#large-results).
 *
 * ```
 *   handler -> output of 31 MB -> uploaded as JSON -> {"output_url": ..., "size": ..., "content_type": ..., "expires_at": ...}
 * ```
 *
 * It is the caller who sees the difference, so it is opt-in. Nothing is lost by it: where there is no bucket, or the upload fails,
 * the output stays as it was, and the platform decides.
 */
import * as JobMiddleware from "@stint/worker/JobMiddleware"
import type { Outcome } from "@stint/worker/Outcome"
import * as Effect from "effect/Effect"
import * as Content from "./Content.ts"
import { Uploads } from "./UploadService.ts"
import type { Options } from "./UploadService.ts"

/** What is too large, and how it is uploaded. */
export interface OffloadOptions {
  /**
   * Bytes of JSON from which on an output is uploaded. Default: 19 MiB, which leaves room below the platform's 20 MiB for what
   * surrounds an output. Lower keeps the platform's store small and costs a request to the storage for each such result.
   */
  readonly above?: number
  /** How it is uploaded. Default: as `{job id}/output.json`, for 7 days. */
  readonly upload?: Options
}

/** Default of `above`: 20 MiB less one for what surrounds an output. */
export const OFFLOAD_ABOVE = 19 * 1024 * 1024

/** The JSON of an output; undefined where there is none, which is for the delivery to report. */
const jsonOf = (output: unknown): string | undefined => {
  try {
    return JSON.stringify(output)
  } catch {
    return undefined
  }
}

/**
 * Middleware that uploads every output whose JSON has more than `above` bytes, an aggregated stream and the rest of a failed
 * job included. Chunks of a stream are delivered as they are.
 */
export const offload = (
  { above = OFFLOAD_ABOVE, upload = {} }: OffloadOptions = {}
): JobMiddleware.JobMiddleware<never, never, Uploads> =>
  JobMiddleware.unwrap(Effect.map(Uploads, (uploads) => {
    const replaceLarge = Effect.fnUntraced(function*(outcome: Outcome): Effect.fn.Return<Outcome> {
      const text = jsonOf(outcome.output)
      // UTF-8 has three bytes at most for each of JavaScript's characters: small ones need not be encoded to be measured.
      if (text === undefined || text.length * 3 <= above) return outcome
      const body = Buffer.from(text)
      if (body.byteLength <= above) return outcome
      const size = `The output has ${body.byteLength} bytes of JSON, more than ${above}`
      return yield* Effect.gen(function*() {
        if ((yield* uploads.destination(upload)) === "Folder") {
          yield* Effect.logWarning(`${size}, and no bucket is configured to upload it to. It is delivered as it is.`)
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
          Effect.as(Effect.logWarning(`${size}, and could not be uploaded, so it is delivered as it is. ${message}`), outcome)
        )
      )
    })
    return JobMiddleware.make((next, job) => Effect.flatMap(next(job), replaceLarge))
  }))
