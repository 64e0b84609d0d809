/**
 * Uploads files, bytes and streams to S3-compatible storage and returns URLs from which a caller can download them
 * (docs/spec/uploads.md#uploading-files).
 *
 * The top of `Destination.ts` explains the destination, and the top of `S3Objects.ts` explains the requests. No AWS code is loaded before
 * the first upload.
 */
import { ENV_PREFIXES, WorkerVariable } from "@stint/contract/WorkerProtocol"
import * as AddressGuard from "@stint/http-guard/AddressGuard"
import * as GuardedLookup from "@stint/http-guard/GuardedLookup"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import { relative, sep } from "node:path"
import { fileURLToPath } from "node:url"
import type { Content } from "./Content.ts"
import * as Destination from "./Destination.ts"
import * as LocalFolder from "./LocalFolder.ts"
import * as ObjectName from "./ObjectName.ts"
import * as ProgressBar from "./ProgressBar.ts"
import * as S3Objects from "./S3Objects.ts"
import { badConfig } from "./UploadError.ts"
import type { UploadError } from "./UploadError.ts"
import { make, resolveObject, Uploads } from "./UploadService.ts"
import type { ContentHints, Options, Uploaded } from "./UploadService.ts"

export type { Credentials } from "./Destination.ts"
export { offload, OFFLOAD_ABOVE } from "./Offload.ts"
export type { OffloadOptions } from "./Offload.ts"
export { Uploads } from "./UploadService.ts"
export type {
  Options,
  /** @public */
  Uploaded
} from "./UploadService.ts"

/** Options for the layer. */
export interface LayerOptions extends Partial<S3Objects.Tuning> {
  /** Where uploads are written without a bucket. Default: `local_upload` in the working directory. */
  readonly folder?: string
  /**
   * Whether to use a job's own `s3Config`. Default: true (docs/spec/uploads.md#destination). It makes this worker send results to a public address that
   * the caller chose, with requests signed by the caller's key. Disable it if callers must not use the worker's network.
   */
  readonly jobConfig?: boolean
  /**
   * Special-purpose address ranges that a storage service may have when a job's `s3Config` or the call's `credentials` choose it: `10.1.2.3`,
   * `10.0.0.0/8`. Default: the comma-separated ranges in `PLATFORM_UPLOAD_ALLOW`; without it, none. The storage of the `BUCKET_*` variables may
   * have any address.
   */
  readonly allow?: ReadonlyArray<string>
  /** Where the progress line is shown. Default: standard error, if it is a terminal and the log is not JSON. */
  readonly progress?: ProgressBar.ProgressBar
}

/** The default local folder. */
const FOLDER = "local_upload"

const isSet = (name: string): Config.Config<boolean> =>
  Config.map(
    Config.all(ENV_PREFIXES.map((prefix) => Config.option(Config.String(prefix + name)))),
    (values) => values.some((value) => Option.isSome(value) && value.value.trim() !== "")
  )

const ALLOW = "UPLOAD_ALLOW"

const makeGuard = Effect.fnUntraced(function*(allow: ReadonlyArray<string> | undefined) {
  const { ranges, variable } = allow === undefined
    ? yield* AddressGuard.rangesFromConfig(ENV_PREFIXES.map((prefix) => prefix + ALLOW))
    : { ranges: allow, variable: "allow" }
  const guard = AddressGuard.make({ allow: ranges })
  return GuardedLookup.make(
    yield* Effect.mapError(Effect.fromResult(guard), ({ message }) => badConfig(variable, `${variable}: ${message}`))
  )
})

const checkTuning = (tuning: S3Objects.Tuning): Effect.Effect<void, UploadError> => {
  const whole = (value: number, least: number) => Number.isSafeInteger(value) && value >= least
  if (!whole(tuning.partSize, S3Objects.MIN_PART_SIZE)) {
    return badConfig(
      "partSize",
      `partSize is ${tuning.partSize}; it must be ${S3Objects.MIN_PART_SIZE} bytes (5 MiB) or more, S3's minimum.`
    )
  }
  if (!whole(tuning.concurrency, 1)) {
    return badConfig("concurrency", `concurrency is ${tuning.concurrency}; it must be 1 or more.`)
  }
  if (!whole(tuning.attempts, 1)) return badConfig("attempts", `attempts is ${tuning.attempts}; it must be 1 or more.`)
  return Effect.void
}

/** The prefix of the bucket's settings, then the object's own key. */
const keyIn = (bucket: Destination.Bucket, key: string): Effect.Effect<string, UploadError> => {
  const whole = ObjectName.join(bucket.prefix, key)
  const bytes = Buffer.byteLength(whole)
  return bytes <= ObjectName.MAX_KEY
    ? Effect.succeed(whole)
    : badConfig("key", `The object's name would have ${bytes} bytes; S3 allows ${ObjectName.MAX_KEY}. Shorten key or prefix.`)
}

const build = Effect.fnUntraced(function*(
  options: LayerOptions,
  always: boolean,
  resolve: (options: Options) => Effect.Effect<Destination.Destination, UploadError>
): Effect.fn.Return<Uploads["Service"], UploadError | Config.ConfigError, Scope.Scope> {
  const { allow, folder = FOLDER, jobConfig: _, progress, ...given } = options
  const tuning: S3Objects.Tuning = { ...S3Objects.DEFAULT_TUNING, ...given }
  yield* checkTuning(tuning)
  const s3 = yield* S3Objects.make(tuning, yield* makeGuard(allow))
  const bar = progress ?? ProgressBar.terminal(yield* isSet(WorkerVariable.endpointId))
  const onPlatform = yield* isSet(WorkerVariable.getJob)

  const said = new Set<string>()
  const logOnce = (about: string, line: Effect.Effect<void>) =>
    Effect.suspend(() => {
      if (said.has(about)) return Effect.void
      said.add(about)
      return line
    })
  const variables = Destination.VARIABLES.join(", ")
  const logFolderFallback = logOnce(
    "folder",
    always
      ? Effect.logInfo(`Uploads are written to the folder ${folder}.`)
      : onPlatform
      ? Effect.logWarning(
        `No bucket is configured, so uploads are written to the folder ${folder} of this worker, where no caller can fetch them. ` +
          `Set ${variables} for the endpoint, or send an s3Config with the job.`
      )
      : Effect.logInfo(`No bucket is configured, so uploads are written to the folder ${folder}. For a bucket, set ${variables}.`)
  )
  const logDefaultBucket = (bucket: string) =>
    logOnce(
      `unnamed ${bucket}`,
      Effect.logInfo(`No bucket is named, so uploads go to "${bucket}", named after the month. Set BUCKET_NAME to name one.`)
    )

  const store = Effect.fnUntraced(
    function*<E, R>(
      content: Content<E, R>,
      object: ContentHints,
      options: Options = {}
    ): Effect.fn.Return<Uploaded, UploadError | E, R | Scope.Scope> {
      const { contentType, expires, key, name } = yield* resolveObject(object, options)
      const destination = yield* resolve(options)
      if (destination._tag === "Folder") {
        yield* logFolderFallback
        const { size, url } = yield* LocalFolder.write(folder, key, content)
        yield* Effect.annotateCurrentSpan({ key, bytes: size, folder })
        return { url, key, bucket: undefined, size, contentType, expiresAt: undefined }
      }
      if (destination.unnamed) yield* logDefaultBucket(destination.bucket)
      const whole = yield* keyIn(destination, key)
      yield* Effect.annotateCurrentSpan({ key: whole, bucket: destination.bucket, endpoint: destination.endpoint })
      const advance = yield* bar.show(name, content.size)
      const { acl, cacheControl, contentDisposition, contentEncoding, metadata } = options
      const size = yield* s3.write(
        destination,
        { key: whole, contentType, acl, cacheControl, contentDisposition, contentEncoding, metadata },
        content,
        advance
      )
      yield* Effect.annotateCurrentSpan({ bytes: size })
      const now = yield* Clock.currentTimeMillis
      const url = yield* s3.sign(destination, whole, expires)
      return { url, key: whole, bucket: destination.bucket, size, contentType, expiresAt: new Date(now + expires * 1000) }
    },
    Effect.scoped,
    (upload) => Effect.withSpan(upload, "upload", { captureStackTrace: false })
  )

  return make(store, (options = {}) => Effect.map(resolve(options), ({ _tag }) => _tag))
})

/**
 * Uploads to the job's bucket; without one, to the bucket of the `BUCKET_*` variables; without that, to a local folder.
 *
 * Fails when only some of the three variables of a bucket are set, or one is invalid.
 */
export const layerWith = (options: LayerOptions): Layer.Layer<Uploads, UploadError | Config.ConfigError> =>
  Layer.effect(
    Uploads,
    Effect.flatMap(
      Destination.environment,
      (environment) => build(options, false, (choice) => Destination.resolve(choice, environment, options.jobConfig ?? true))
    )
  )

/** {@link layerWith} without options. */
export const layer: Layer.Layer<Uploads, UploadError | Config.ConfigError> = layerWith({})

/** Uploads to a local folder, whatever the environment, the job and the call specify: for work without a network. */
export const layerLocal = (folder: string = FOLDER): Layer.Layer<Uploads, UploadError | Config.ConfigError> =>
  Layer.effect(Uploads, build({ folder }, true, () => Effect.succeed({ _tag: "Folder" })))

/** Uploads a file, read part by part, and returns a URL to fetch it from. */
export const file = (path: string | URL, options?: Options): Effect.Effect<URL, UploadError, Uploads> =>
  Effect.flatMap(Uploads, (uploads) => uploads.file(path, options))

/** Uploads bytes, or a string as UTF-8, and returns a URL to fetch them from. */
export const bytes = (data: Uint8Array | string, options?: Options): Effect.Effect<URL, UploadError, Uploads> =>
  Effect.flatMap(Uploads, (uploads) => uploads.bytes(data, options))

/** Uploads the content of a stream and returns a URL to fetch it from. */
export const stream = <E, R>(
  data: Stream.Stream<Uint8Array, E, R>,
  options?: Options
): Effect.Effect<URL, UploadError | E, R | Uploads> => Effect.flatMap(Uploads, (uploads) => uploads.stream(data, options))

/**
 * An upload's address as the functions of docs/spec/uploads.md#uploading-files return it: for a file, its path, relative to the working directory if it is
 * below it; else the URL.
 */
export const toText = (url: URL): string => {
  if (url.protocol !== "file:") return url.href
  const path = fileURLToPath(url)
  const short = relative(process.cwd(), path)
  return short === "" || short === ".." || short.startsWith(`..${sep}`) ? path : short
}
