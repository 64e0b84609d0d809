/**
 * A client for one S3-compatible storage service.
 *
 * `@aws-sdk/client-s3` signs, connects and retries. It is loaded when the first client is made: importing this module loads no AWS code.
 */
import type * as Sdk from "@aws-sdk/client-s3"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { LookupFunction } from "node:net"
import { fromSdkError, S3Error } from "./S3Error.ts"

/** The storage, the key, and the limits for a request. */
export interface Options {
  /** The address of the storage, without the bucket: `http://127.0.0.1:9000`. Undefined: AWS, in the region. */
  readonly endpoint: string | undefined
  readonly region: string
  /** True sends the bucket in the path (`/bucket/key`), which every storage service accepts; false sends it in the host name. */
  readonly pathStyle: boolean
  readonly accessKeyId: string
  readonly secretAccessKey: Redacted.Redacted
  /**
   * The number of attempts for one request, including the first. Lost connections, 5xx responses and "slow down" are retried with backoff.
   */
  readonly attempts: number
  /** Default: `standard`. `adaptive` also delays requests once the storage has responded with "slow down". */
  readonly retryMode?: "standard" | "adaptive" | undefined
  /** Time limit for opening a connection. */
  readonly connectTimeout: Duration.Input
  /** How long a connection may transfer nothing before the attempt fails. */
  readonly silenceTimeout: Duration.Input
  /**
   * The number of concurrent requests, each on its own connection. Further requests wait here for a permit, because time spent waiting for
   * a connection inside the SDK would count against `connectTimeout`.
   */
  readonly maxRequests: number
  /** Resolves host names, for storage services whose address is not trusted. Default: the machine's resolver. */
  readonly lookup?: LookupFunction | undefined
}

/** A client for one storage service, with the SDK module that contains its commands. */
export interface S3 {
  readonly client: Sdk.S3Client
  readonly sdk: typeof Sdk
  /** Converts an error that the SDK threw. The result contains no part of the key. */
  readonly toError: (error: unknown) => S3Error
  /** Sends one request when a permit is free. Interruption aborts it. */
  readonly request: <A>(send: (client: Sdk.S3Client, abortSignal: AbortSignal) => Promise<A>) => Effect.Effect<A, S3Error>
}

/** Creates a client whose connections close with the scope. Sends nothing. */
export const make = Effect.fnUntraced(function*(options: Options): Effect.fn.Return<S3, never, Scope.Scope> {
  const { accessKeyId, lookup, maxRequests, secretAccessKey } = options
  const agent = { keepAlive: true, maxSockets: maxRequests, ...(lookup === undefined ? {} : { lookup }) }
  const sdk = yield* Effect.promise(() => import("@aws-sdk/client-s3"))
  const permits = yield* Semaphore.make(maxRequests)
  const client = yield* Effect.acquireRelease(
    Effect.sync(() =>
      new sdk.S3Client({
        ...(options.endpoint === undefined ? {} : { endpoint: options.endpoint }),
        region: options.region,
        forcePathStyle: options.pathStyle,
        credentials: { accessKeyId, secretAccessKey: Redacted.value(secretAccessKey) },
        maxAttempts: options.attempts,
        retryMode: options.retryMode ?? "standard",
        requestHandler: {
          connectionTimeout: Duration.toMillis(options.connectTimeout),
          socketTimeout: Duration.toMillis(options.silenceTimeout),
          httpAgent: agent,
          httpsAgent: agent
        },
        // The SDK opens a new connection for each request with `Expect: 100-continue`, and some storage services never respond to that.
        expectContinueHeader: false,
        // By default, the SDK sends its own checksums as trailers, which many storage services reject. The signature covers the content.
        requestChecksumCalculation: "WHEN_REQUIRED",
        responseChecksumValidation: "WHEN_REQUIRED",
        // Ignore the machine's AWS settings: they must not redirect requests to another storage service.
        useDualstackEndpoint: false,
        useFipsEndpoint: false
      })
    ),
    (client) => Effect.sync(() => client.destroy())
  )
  const toError = fromSdkError({ accessKeyId, secretAccessKey })
  return {
    client,
    sdk,
    toError,
    request: (send) => permits.withPermit(Effect.tryPromise({ try: (abortSignal) => send(client, abortSignal), catch: toError }))
  }
})

/**
 * A field that every S3 storage service returns, such as the ETag of a write. A web server that returns 200 for any request does not return the
 * field and has stored nothing; this then fails with `NotS3`.
 */
export const required = (value: string | undefined, name: string): Effect.Effect<string, S3Error> =>
  value === undefined
    ? Effect.fail(
      new S3Error({ kind: "NotS3", code: "", text: `it has no ${name}; the address may belong to a web site`, attempts: 1 })
    )
    : Effect.succeed(value)
