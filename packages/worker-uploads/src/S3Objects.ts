/**
 * Writes objects to a bucket, and presigns URLs to read them.
 *
 * ```
 *   up to one part       PutObject
 *   more                 CreateMultipartUpload
 *                          UploadPart x n, a few at a time ---- fails, or is interrupted
 *                          CompleteMultipartUpload                    |
 *                                                               AbortMultipartUpload
 * ```
 *
 * A storage service keeps the parts of an upload until the upload is completed or aborted, and charges for them. Interruption therefore cancels
 * the parts in flight and waits for the abort.
 *
 * This file implements multipart uploads itself instead of using the SDK's `lib-storage`, whose `abort` lets requests in flight continue
 * and does not wait for its own cleanup, and which continues to send parts after one has failed.
 */
import type { S3Client } from "@aws-sdk/client-s3"
import type { GuardedLookup } from "@stint/http-guard/GuardedLookup"
import { S3 } from "@stint/s3"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as RcMap from "effect/RcMap"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Content, NextPart } from "./Content.ts"
import { type Bucket, isTrusted } from "./Destination.ts"
import type { Advance } from "./ProgressBar.ts"
import { Forbidden, Rejected, UploadError } from "./UploadError.ts"
import { toUploadError } from "./UploadErrorMapping.ts"

/** How uploads are made. */
export interface Tuning {
  /**
   * Bytes per part. Default: 8 MiB; S3's minimum is 5 MiB. Larger parts need fewer requests; an upload holds `concurrency` + 1 parts in memory, and
   * a lost connection costs one of them. A file that would need more than 10,000 parts gets larger ones.
   */
  readonly partSize: number
  /** Concurrent parts of one upload. Default: 4. More parts use a fast connection better and need more memory. */
  readonly concurrency: number
  /**
   * The number of attempts for one request, including the first. Default: 5. Lost connections, 5xx responses and "slow down" are retried,
   * with random delays that grow to 20 s; other errors are not.
   */
  readonly attempts: number
  /**
   * Default: `standard`. `adaptive` also delays requests once the storage has said "slow down": gentler to an overloaded storage, slower
   * elsewhere.
   */
  readonly retryMode: "standard" | "adaptive"
  /** Time limit for opening a connection. Default: 10 seconds. */
  readonly connectTimeout: Duration.Input
  /** How long a connection may transfer nothing, in both directions, before the attempt fails. Default: 60 seconds. */
  readonly silenceTimeout: Duration.Input
}

/** The defaults. */
export const DEFAULT_TUNING: Tuning = {
  partSize: 8 * 1024 * 1024,
  concurrency: 4,
  attempts: 5,
  retryMode: "standard",
  connectTimeout: "10 seconds",
  silenceTimeout: "60 seconds"
}

/** The minimum size of a part, except the last. Bytes. */
export const MIN_PART_SIZE = 5 * 1024 * 1024

/** The maximum number of parts in one object. */
const MAX_PARTS = 10_000

/** The time limit for aborting an upload. The caller waits for it. */
const ABORT_TIMEOUT = Duration.seconds(15)

/** An unused client is closed after this time, because the storage would close its connections anyway. */
const IDLE = Duration.seconds(60)

/**
 * Concurrent requests to one storage service, each on its own connection.
 */
const MAX_REQUESTS = 48

/** Who may read an object without a signature; most storage services today ignore or reject anything but `private`. */
export type Acl =
  | "private"
  | "public-read"
  | "public-read-write"
  | "authenticated-read"
  | "aws-exec-read"
  | "bucket-owner-read"
  | "bucket-owner-full-control"

/** The object to write. */
export interface ObjectSpec {
  readonly key: string
  readonly contentType: string
  readonly contentEncoding?: string | undefined
  readonly contentDisposition?: string | undefined
  readonly cacheControl?: string | undefined
  readonly acl?: Acl | undefined
  readonly metadata?: { readonly [key: string]: string } | undefined
}

/** Operations on buckets. */
export interface S3Objects {
  /** Writes one object and returns its size in bytes. */
  readonly write: <E, R>(
    bucket: Bucket,
    object: ObjectSpec,
    content: Content<E, R>,
    advance: Advance
  ) => Effect.Effect<number, UploadError | E, R>
  /** Returns a URL that lets anyone read the object for this number of seconds. Sends nothing. */
  readonly sign: (bucket: Bucket, key: string, seconds: number) => Effect.Effect<URL, UploadError>
}

/** Requests for one upload: the client of the bucket's storage, and errors that name the bucket. */
interface Target {
  readonly bucket: Bucket
  readonly sdk: S3.S3["sdk"]
  readonly request: <A>(send: (client: S3Client, abortSignal: AbortSignal) => Promise<A>) => Effect.Effect<A, UploadError>
}

const targetOf = (bucket: Bucket, { request, sdk }: S3.S3): Target => ({
  bucket,
  sdk,
  request: (send) => Effect.mapError(request(send), toUploadError(bucket))
})

/** The settings that select a client. Buckets that share them share one client. */
const clientKey = ({ accessId, accessSecret, endpoint, origin, pathStyle, region }: Bucket) => ({
  accessId,
  accessSecret,
  endpoint,
  pathStyle,
  region,
  trusted: isTrusted(origin)
})

/** Writes and signs with clients that close with the scope. Connections to storage services that callers chose pass the guard. */
export const make = Effect.fnUntraced(function*(
  tuning: Tuning,
  guard: GuardedLookup
): Effect.fn.Return<S3Objects, never, Scope.Scope> {
  const clients = yield* RcMap.make({
    idleTimeToLive: IDLE,
    lookup: ({ accessId, accessSecret, trusted, ...key }: ReturnType<typeof clientKey>) =>
      S3.make({
        ...tuning,
        ...key,
        accessKeyId: accessId,
        secretAccessKey: accessSecret,
        maxRequests: MAX_REQUESTS,
        lookup: trusted ? undefined : guard.lookup
      })
  })

  const checkHost = ({ endpoint, origin }: Bucket): Effect.Effect<void, UploadError> => {
    const problem = isTrusted(origin) ? undefined : guard.reasonOf(new URL(endpoint))
    return problem === undefined ? Effect.void : Effect.fail(new UploadError({ reason: new Forbidden({ endpoint, problem }) }))
  }

  const put = Effect.fnUntraced(function*({ bucket, request, sdk }: Target, object: ObjectSpec, body: Uint8Array) {
    const command = new sdk.PutObjectCommand({ ...paramsOf(bucket, object), Body: body, ContentLength: body.byteLength })
    const answer = yield* request((client, abortSignal) => client.send(command, { abortSignal }))
    yield* Effect.mapError(S3.required(answer.ETag, "ETag"), toUploadError(bucket))
  })

  const parts = <E, R>(
    { bucket, request, sdk }: Target,
    key: string,
    uploadId: string,
    first: Uint8Array,
    next: NextPart<E, R>,
    advance: Advance
  ) =>
    Stream.unfold(1, (number) =>
      Effect.gen(function*() {
        const body = number === 1 ? first : yield* next
        if (body === undefined) return undefined
        if (number > MAX_PARTS) return yield* tooManyParts(bucket, first.byteLength)
        return [{ number, body }, number + 1] as const
      })).pipe(
        Stream.mapEffect(({ body, number }) =>
          Effect.gen(function*() {
            const command = new sdk.UploadPartCommand({
              Bucket: bucket.bucket,
              Key: key,
              UploadId: uploadId,
              PartNumber: number,
              Body: body,
              ContentLength: body.byteLength
            })
            const answer = yield* request((client, abortSignal) => client.send(command, { abortSignal }))
            const ETag = yield* Effect.mapError(S3.required(answer.ETag, "ETag"), toUploadError(bucket))
            yield* advance(body.byteLength)
            return { ETag, PartNumber: number, size: body.byteLength }
          }), { concurrency: tuning.concurrency }),
        Stream.runCollect
      )

  const abort = Effect.fnUntraced(function*({ bucket, request, sdk }: Target, key: string, uploadId: string) {
    const command = new sdk.AbortMultipartUploadCommand({ Bucket: bucket.bucket, Key: key, UploadId: uploadId })
    yield* request((client, abortSignal) => client.send(command, { abortSignal })).pipe(
      Effect.timeoutOrElse({ duration: ABORT_TIMEOUT, orElse: () => Effect.fail({ message: "The storage does not answer." }) }),
      Effect.catch(({ message }) =>
        Effect.logWarning(
          `The upload of ${key} was aborted, but its parts may remain in bucket "${bucket.bucket}", where they cost money until a ` +
            `lifecycle rule for incomplete multipart uploads removes them. ${message}`
        )
      )
    )
  })

  const multipart = <E, R>(
    target: Target,
    object: ObjectSpec,
    first: Uint8Array,
    next: NextPart<E, R>,
    advance: Advance
  ) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function*() {
        const { bucket, request, sdk } = target
        // An interruption here may leave an upload without parts at the storage, which costs nothing.
        const create = new sdk.CreateMultipartUploadCommand(paramsOf(bucket, object))
        const { UploadId } = yield* restore(request((client, abortSignal) => client.send(create, { abortSignal })))
        const uploadId = yield* Effect.mapError(S3.required(UploadId, "UploadId"), toUploadError(bucket))
        const uploaded = Effect.gen(function*() {
          const done = yield* parts(target, object.key, uploadId, first, next, advance)
          const complete = new sdk.CompleteMultipartUploadCommand({
            Bucket: bucket.bucket,
            Key: object.key,
            UploadId: uploadId,
            MultipartUpload: { Parts: done.map(({ ETag, PartNumber }) => ({ ETag, PartNumber })) }
          })
          yield* request((client, abortSignal) => client.send(complete, { abortSignal }))
          return done.reduce((sum, { size }) => sum + size, 0)
        })
        return yield* restore(uploaded).pipe(
          Effect.onExit((exit) => Exit.isSuccess(exit) ? Effect.void : abort(target, object.key, uploadId))
        )
      })
    )

  return {
    write: <E, R>(bucket: Bucket, object: ObjectSpec, content: Content<E, R>, advance: Advance) =>
      Effect.scoped(Effect.gen(function*() {
        yield* checkHost(bucket)
        const target = targetOf(bucket, yield* RcMap.get(clients, clientKey(bucket)))
        const partSize = Math.max(tuning.partSize, Math.ceil((content.size ?? 0) / MAX_PARTS))
        const next = yield* content.read(partSize)
        const first = (yield* next) ?? new Uint8Array(0)
        if (first.byteLength === content.size || first.byteLength < partSize) {
          yield* put(target, object, first)
          yield* advance(first.byteLength)
          return first.byteLength
        }
        return yield* multipart(target, object, first, next, advance)
      })),
    sign: Effect.fnUntraced(
      function*(bucket, key, seconds) {
        const { getSignedUrl } = yield* Effect.promise(() => import("@aws-sdk/s3-request-presigner"))
        const { client, sdk, toError } = yield* RcMap.get(clients, clientKey(bucket))
        const command = new sdk.GetObjectCommand({ Bucket: bucket.bucket, Key: key })
        const url = yield* Effect.tryPromise({
          try: () => getSignedUrl(client, command, { expiresIn: seconds }),
          catch: (error) => toUploadError(bucket)(toError(error))
        })
        return new URL(url)
      },
      Effect.scoped
    )
  }
})

const paramsOf = (bucket: Bucket, object: ObjectSpec) => ({
  Bucket: bucket.bucket,
  Key: object.key,
  ContentType: object.contentType,
  ContentEncoding: object.contentEncoding,
  ContentDisposition: object.contentDisposition,
  CacheControl: object.cacheControl,
  ACL: object.acl,
  Metadata: object.metadata === undefined ? undefined : { ...object.metadata }
})

const tooManyParts = ({ bucket, endpoint }: Bucket, partSize: number) =>
  new UploadError({
    reason: new Rejected({
      endpoint,
      bucket,
      problem: `the stream has more than ${MAX_PARTS} parts of ${partSize} bytes, the most that S3 accepts; raise partSize`
    })
  })
