/**
 * Stores payloads as objects of an S3-compatible bucket, one request per operation.
 *
 * Building the layer loads the S3 client and lists the bucket once, so that a wrong bucket or key prevents the start instead of failing the first
 * large job.
 */
import { Damaged, Missing, PayloadError, Unavailable } from "@stint/payloads/PayloadError"
import { PayloadKey, PayloadStore } from "@stint/payloads/PayloadStore"
import { S3, type S3Error } from "@stint/s3"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"

/** The bucket, its key, and the limits for a request. */
export interface Options {
  readonly bucket: string
  /** Prepended to every key, separated by a slash. Default: nothing. */
  readonly prefix?: string | undefined
  /** The address of the storage, such as `http://127.0.0.1:9000`. Default: AWS, in the region. */
  readonly endpoint?: string | undefined
  /** Default: `us-east-1`, which most services other than AWS ignore. */
  readonly region?: string | undefined
  readonly accessKeyId: string
  readonly secretAccessKey: Redacted.Redacted
  /**
   * The number of attempts for one request, including the first. Default: 4. A higher number tolerates longer outages but reports a permanent
   * outage later.
   */
  readonly attempts?: number | undefined
  /** Time limit for opening a connection. Default: 5 seconds. */
  readonly connectTimeout?: Duration.Input | undefined
  /** How long a connection may transfer nothing before the attempt fails. Default: 20 seconds. */
  readonly silenceTimeout?: Duration.Input | undefined
}

/** The number of concurrent requests. */
const MAX_REQUESTS = 32

const isKey = Schema.is(PayloadKey)

/** The remedy for an error, by its code. */
const HINTS: Readonly<Record<string, string>> = {
  InvalidAccessKeyId: "check the id of the key",
  SignatureDoesNotMatch: "check the secret of the key, and the region",
  AccessDenied: "the key must be allowed to list the bucket and to put, get and delete its objects",
  RequestTimeTooSkewed: "set this machine's clock: requests are signed with the time"
}

const hintOf = ({ code, kind }: S3Error): string | undefined => {
  if (kind === "NoSuchBucket") return "create it, or correct its name"
  return kind === "WrongRegion" ? "the bucket is in another region" : HINTS[code]
}

const problemOf = (error: S3Error): string => {
  const hint = hintOf(error)
  return `${error.status === undefined ? "" : `${error.status} `}${error.message}${hint === undefined ? "" : ` (${hint})`}`
}

const isReadable = (body: unknown): body is AsyncIterable<unknown> =>
  typeof body === "object" && body !== null && Symbol.asyncIterator in body

/** Reads a body of exactly `size` bytes. Returns undefined if the size differs, and calls `abort` as soon as the body is too long. */
const read = async (body: unknown, size: number, abort: () => void): Promise<Uint8Array | undefined> => {
  const bytes = new Uint8Array(size)
  let length = 0
  if (!isReadable(body)) return size === 0 ? bytes : undefined
  for await (const chunk of body) {
    if (!(chunk instanceof Uint8Array) || length + chunk.byteLength > size) {
      abort()
      return undefined
    }
    bytes.set(chunk, length)
    length += chunk.byteLength
  }
  return length === size ? bytes : undefined
}

const make = Effect.fnUntraced(function*(options: Options) {
  const { accessKeyId, bucket, endpoint, region = "us-east-1", secretAccessKey } = options
  const { request, sdk } = yield* S3.make({
    endpoint,
    region,
    // AWS accepts the bucket in the path too.
    pathStyle: true,
    accessKeyId,
    secretAccessKey,
    attempts: options.attempts ?? 4,
    connectTimeout: options.connectTimeout ?? "5 seconds",
    silenceTimeout: options.silenceTimeout ?? "20 seconds",
    maxRequests: MAX_REQUESTS
  })
  const prefix = options.prefix === undefined || options.prefix === "" ? "" : `${options.prefix.replace(/^\/+|\/+$/g, "")}/`
  const description = `the bucket "${bucket}" at ${endpoint ?? `AWS (${region})`}`

  const failed = (reason: PayloadError["reason"]) => new PayloadError({ store: description, reason })
  const unavailable = (operation: Unavailable["operation"]) =>
    Effect.mapError((error: S3Error) => failed(new Unavailable({ operation, problem: problemOf(error) })))

  yield* request((client, abortSignal) =>
    client.send(new sdk.ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, MaxKeys: 1 }), { abortSignal })
  ).pipe(unavailable("open"))

  return PayloadStore.of({
    description,
    put: (key, bytes) =>
      request((client, abortSignal) =>
        client.send(
          new sdk.PutObjectCommand({
            Bucket: bucket,
            Key: prefix + key,
            Body: bytes,
            ContentLength: bytes.byteLength,
            ContentType: "application/json"
          }),
          { abortSignal }
        )
      ).pipe(Effect.flatMap(({ ETag }) => S3.required(ETag, "ETag")), unavailable("put"), Effect.asVoid),
    get: (key, size) =>
      request(async (client, signal) => {
        const abort = new AbortController()
        const { Body } = await client.send(new sdk.GetObjectCommand({ Bucket: bucket, Key: prefix + key }), {
          abortSignal: AbortSignal.any([signal, abort.signal])
        })
        return await read(Body, size, () => abort.abort())
      }).pipe(
        Effect.mapError((error) =>
          failed(
            error.kind === "NoSuchKey" ? new Missing({ key }) : new Unavailable({ operation: "get", problem: problemOf(error) })
          )
        ),
        Effect.flatMap((bytes) =>
          bytes === undefined
            ? failed(new Damaged({ key, problem: `it does not have ${size} bytes` }))
            : Effect.succeed(bytes)
        )
      ),
    remove: (key) =>
      request((client, abortSignal) =>
        client.send(new sdk.DeleteObjectCommand({ Bucket: bucket, Key: prefix + key }), { abortSignal })
      ).pipe(unavailable("remove"), Effect.asVoid),
    list: (path) =>
      Stream.paginate<string | undefined, PayloadKey, PayloadError>(
        undefined,
        (token) =>
          request((client, abortSignal) =>
            client.send(
              new sdk.ListObjectsV2Command({
                Bucket: bucket,
                Prefix: `${prefix}${path}/`,
                ...(token === undefined ? {} : { ContinuationToken: token })
              }),
              { abortSignal }
            )
          ).pipe(
            unavailable("list"),
            Effect.map(({ Contents = [], IsTruncated, NextContinuationToken }) => {
              const keys = Contents.flatMap(({ Key }) => Key === undefined ? [] : [Key.slice(prefix.length)]).filter(isKey)
              return [keys, IsTruncated === true ? Option.fromUndefinedOr(NextContinuationToken) : Option.none()] as const
            })
          )
      )
  })
})

/** Payloads in a bucket. Fails with `Unavailable` if the bucket cannot be listed. */
export const layer = (options: Options): Layer.Layer<PayloadStore, PayloadError> => Layer.effect(PayloadStore, make(options))
