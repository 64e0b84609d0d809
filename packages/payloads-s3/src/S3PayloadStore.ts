/**
 * Payloads as objects of an S3-compatible bucket.
 *
 * One request an object: payloads are texts in memory, far below what one request may carry. The client signs, connects and retries; it is loaded
 * at the first request, and that is when the layer is built, for a bucket that cannot be read is to stop the boot and not the first large job.
 */
import type { S3Client } from "@aws-sdk/client-s3"
import { Damaged, Missing, PayloadError, Unavailable } from "@stint/payloads/PayloadError"
import { PayloadKey, PayloadStore } from "@stint/payloads/PayloadStore"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import { isMissing, problemOf } from "./S3Errors.ts"

/** Which bucket, and whose. */
export interface Options {
  readonly bucket: string
  /** Goes before every key, with a slash between. Default: nothing. */
  readonly prefix?: string | undefined
  /** The storage's address, `http://127.0.0.1:9000` for example. Default: AWS, in the region. */
  readonly endpoint?: string | undefined
  /** Default: `us-east-1`, which storages other than AWS mostly ignore. */
  readonly region?: string | undefined
  readonly accessKeyId: string
  readonly secretAccessKey: Redacted.Redacted
  /** How often a request is tried in all. Default: 4. More outlasts longer hiccups; a storage that is down is noticed later. */
  readonly attempts?: number | undefined
  /** How long a connection may take to come about. Default: 5 seconds. */
  readonly connectTimeout?: Duration.Input | undefined
  /** How long a connection may be silent before the request counts as lost. Default: 20 seconds. */
  readonly silenceTimeout?: Duration.Input | undefined
}

/** Requests at the same time, each on a connection of its own. */
const MAX_REQUESTS = 32

const load = Effect.promise(() => import("@aws-sdk/client-s3"))

const isKey = Schema.is(PayloadKey)

const open = ({ S3Client }: Effect.Success<typeof load>, options: Options) =>
  Effect.acquireRelease(
    Effect.sync(() =>
      new S3Client({
        ...(options.endpoint === undefined ? {} : { endpoint: options.endpoint }),
        region: options.region ?? "us-east-1",
        // In the path it always works, at AWS too.
        forcePathStyle: true,
        credentials: {
          accessKeyId: options.accessKeyId,
          secretAccessKey: Redacted.value(options.secretAccessKey)
        },
        maxAttempts: options.attempts ?? 4,
        requestHandler: {
          connectionTimeout: Duration.toMillis(options.connectTimeout ?? "5 seconds"),
          socketTimeout: Duration.toMillis(options.silenceTimeout ?? "20 seconds"),
          httpAgent: { keepAlive: true, maxSockets: MAX_REQUESTS },
          httpsAgent: { keepAlive: true, maxSockets: MAX_REQUESTS }
        },
        expectContinueHeader: false,
        // The client's own checksums go into trailers, which many storages refuse. The signature covers what is put; a digest what is got.
        requestChecksumCalculation: "WHEN_REQUIRED",
        responseChecksumValidation: "WHEN_REQUIRED",
        // A machine's settings for AWS must not bend requests to another storage.
        useDualstackEndpoint: false,
        useFipsEndpoint: false
      })
    ),
    (client) => Effect.sync(() => client.destroy())
  )

const make = Effect.fnUntraced(function*(options: Options) {
  const { bucket } = options
  const module = yield* load
  const client = yield* open(module, options)
  const turns = yield* Semaphore.make(MAX_REQUESTS)
  const prefix = options.prefix === undefined || options.prefix === "" ? "" : `${options.prefix.replace(/^\/+|\/+$/g, "")}/`
  const description = `the bucket "${bucket}" at ${options.endpoint ?? `AWS (${options.region ?? "us-east-1"})`}`

  const failed = (reason: PayloadError["reason"]) => new PayloadError({ store: description, reason })

  const request = <A>(
    operation: Unavailable["operation"],
    send: (client: S3Client, abortSignal: AbortSignal) => Promise<A>,
    missing: () => PayloadError["reason"] | undefined = () => undefined
  ): Effect.Effect<A, PayloadError> =>
    Semaphore.withPermit(
      turns,
      Effect.tryPromise({
        try: (signal) => send(client, signal),
        catch: (error) => {
          const reason = isMissing(error) ? missing() : undefined
          return failed(reason ?? new Unavailable({ operation, problem: problemOf(error, options) }))
        }
      })
    )

  /** The body, read no further than `size` and one byte more. */
  const read = async (body: unknown, size: number, cut: () => void): Promise<Uint8Array | undefined> => {
    const bytes = new Uint8Array(size)
    let length = 0
    if (!isReadable(body)) return size === 0 ? bytes : undefined
    for await (const chunk of body) {
      if (!(chunk instanceof Uint8Array) || length + chunk.byteLength > size) {
        cut()
        return undefined
      }
      bytes.set(chunk, length)
      length += chunk.byteLength
    }
    return length === size ? bytes : undefined
  }

  // Says at the boot what would otherwise be said at the first large job.
  yield* request(
    "open",
    (client, abortSignal) =>
      client.send(new module.ListObjectsV2Command({ Bucket: bucket, Prefix: prefix, MaxKeys: 1 }), { abortSignal })
  )

  return PayloadStore.of({
    description,
    put: (key, bytes) =>
      Effect.flatMap(
        request("put", (client, abortSignal) =>
          client.send(
            new module.PutObjectCommand({
              Bucket: bucket,
              Key: prefix + key,
              Body: bytes,
              ContentLength: bytes.byteLength,
              ContentType: "application/json"
            }),
            { abortSignal }
          )),
        ({ ETag }) =>
          ETag === undefined
            ? failed(
              new Unavailable({
                operation: "put",
                problem: "it said yes, but not as S3 storage does; is the address one of a web site?"
              })
            )
            : Effect.void
      ),
    get: (key, size) =>
      Effect.flatMap(
        request(
          "get",
          async (client, signal) => {
            const abort = new AbortController()
            const { Body } = await client.send(new module.GetObjectCommand({ Bucket: bucket, Key: prefix + key }), {
              abortSignal: AbortSignal.any([signal, abort.signal])
            })
            return await read(Body, size, () => abort.abort())
          },
          () => new Missing({ key })
        ),
        (bytes) =>
          bytes === undefined
            ? failed(new Damaged({ key, problem: `it does not have ${size} bytes` }))
            : Effect.succeed(bytes)
      ),
    remove: (key) =>
      Effect.asVoid(
        request("remove", (client, abortSignal) =>
          client.send(new module.DeleteObjectCommand({ Bucket: bucket, Key: prefix + key }), { abortSignal }))
      ),
    list: (path) =>
      Stream.paginate<string | undefined, PayloadKey, PayloadError>(
        undefined,
        (token) =>
          Effect.map(
            request("list", (client, abortSignal) =>
              client.send(
                new module.ListObjectsV2Command({
                  Bucket: bucket,
                  Prefix: `${prefix}${path}/`,
                  ...(token === undefined ? {} : { ContinuationToken: token })
                }),
                { abortSignal }
              )),
            ({ Contents = [], IsTruncated, NextContinuationToken }) => {
              const keys = Contents.flatMap(({ Key }) => Key === undefined ? [] : [Key.slice(prefix.length)]).filter(isKey)
              return [keys, IsTruncated === true ? Option.fromUndefinedOr(NextContinuationToken) : Option.none()] as const
            }
          )
      )
  })
})

const isReadable = (body: unknown): body is AsyncIterable<unknown> =>
  typeof body === "object" && body !== null && Symbol.asyncIterator in body

/** The objects of a bucket. Fails with `Unavailable` where the bucket cannot be listed. */
export const layer = (options: Options): Layer.Layer<PayloadStore, PayloadError> => Layer.effect(PayloadStore, make(options))
