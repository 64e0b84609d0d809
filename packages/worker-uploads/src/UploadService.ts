/**
 * The service that handlers use to send results to storage.
 *
 * ```
 *   file / bytes / stream -> Destination.resolve -> S3Objects.write, .sign -> https: URL, valid for `expires`
 *                                   | no bucket
 *                                   +-> LocalFolder.write -> file: URL
 * ```
 */
import { CurrentJob } from "@stint/worker/CurrentJob"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Stream from "effect/Stream"
import { fileURLToPath } from "node:url"
import * as Content from "./Content.ts"
import type { Credentials, Destination } from "./Destination.ts"
import * as ObjectName from "./ObjectName.ts"
import type { Acl } from "./S3Objects.ts"
import { badConfig } from "./UploadError.ts"
import type { UploadError } from "./UploadError.ts"

/** Options for one upload. */
export interface Options {
  /**
   * The name of the file, the last part of the object's key. Default: the name of the file; for bytes and streams a random name. Made safe.
   */
  readonly name?: string | undefined
  /**
   * The object's whole key, in place of `{job id}/{name}`. A key without the job's id lets one job overwrite another's object. Empty segments, `.` and
   * `..` are dropped, and the others are made safe.
   */
  readonly key?: string | undefined
  /** Prepended to the object's key. */
  readonly prefix?: string | undefined
  /** Default: determined by the extension of the name, otherwise `application/octet-stream`, or `text/plain; charset=utf-8` for a string. */
  readonly contentType?: string | undefined
  readonly contentEncoding?: string | undefined
  /** `attachment; filename="..."` makes browsers save the object instead of showing it. */
  readonly contentDisposition?: string | undefined
  readonly cacheControl?: string | undefined
  /** Who may read the object without a signature. Default: the bucket's rule; many storage services accept no other. */
  readonly acl?: Acl | undefined
  /** Stored with the object; keys and values are ASCII, 2 kB in total. */
  readonly metadata?: { readonly [key: string]: string } | undefined
  /** The bucket, in place of the one in the credentials. */
  readonly bucket?: string | undefined
  /** The storage of this upload, in place of the job's and the environment's. */
  readonly credentials?: Credentials | undefined
  /**
   * How long the URL is valid: 1 second to 7 days, S3's maximum and the default. A shorter time is safer, because anyone with the URL
   * can read the object. A URL that is valid for more than a day outlives the job's result, which is removed after a day.
   */
  readonly expires?: Duration.Input | undefined
}

/** The result of an upload. */
export interface Uploaded {
  /** Presigned, usually `https:`; `file:` without a bucket. */
  readonly url: URL
  /** The object's key in its bucket or folder. */
  readonly key: string
  /** Undefined for a folder. */
  readonly bucket: string | undefined
  /** Bytes. */
  readonly size: number
  readonly contentType: string
  /** When the URL expires; undefined: never. */
  readonly expiresAt: Date | undefined
}

/** Uploads of this worker. */
export class Uploads extends Context.Service<Uploads, {
  /** Uploads a file of any size, which is read part by part. */
  readonly file: (path: string | URL, options?: Options) => Effect.Effect<URL, UploadError>
  /** Uploads bytes, or a string as UTF-8. */
  readonly bytes: (data: Uint8Array | string, options?: Options) => Effect.Effect<URL, UploadError>
  /** Uploads the content of a stream. The uploaded object can be read only after the stream has ended. */
  readonly stream: <E, R>(
    data: Stream.Stream<Uint8Array, E, R>,
    options?: Options
  ) => Effect.Effect<URL, UploadError | E, R>
  /** Uploads any content and returns all details. The other methods call it. */
  readonly store: <E, R>(
    content: Content.Content<E, R>,
    object: ContentHints,
    options?: Options
  ) => Effect.Effect<Uploaded, UploadError | E, R>
  /** Resolves where an upload with these options would go. */
  readonly destination: (options?: Options) => Effect.Effect<Destination["_tag"], UploadError>
}>()("@stint/worker-uploads/Uploads") {}

/** The properties of the content other than its bytes. */
export interface ContentHints {
  /** The name if the options contain none. If undefined, the name is random. The name does not have to be safe. */
  readonly name: string | undefined
  /** The type if the name has no known extension. */
  readonly contentType: string
  /** It is UTF-8 text, so a text type gets a charset. */
  readonly text?: boolean
}

/** An object's resolved name and type. */
export interface ResolvedObject {
  /** Without the destination's own prefix. */
  readonly key: string
  /** The last part of the key, for people. */
  readonly name: string
  readonly contentType: string
  /** Seconds. */
  readonly expires: number
}

/** S3's maximum: seven days. */
const MAX_EXPIRES = Duration.days(7)

const expiresOf = (input: Duration.Input | undefined): Effect.Effect<number, UploadError> => {
  const seconds = Math.floor(Duration.toSeconds(input ?? MAX_EXPIRES))
  return seconds >= 1 && seconds <= Duration.toSeconds(MAX_EXPIRES)
    ? Effect.succeed(seconds)
    : badConfig("expires", `expires is ${seconds} seconds; a URL can be valid for 1 second to 7 days (604800), S3's maximum.`)
}

/** Metadata is sent as headers, which allow only these characters. */
const PRINTABLE = /^[\u0020-\u007e]*$/
const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/

const checkMetadata = (metadata: Options["metadata"]): Effect.Effect<void, UploadError> => {
  const wrong = Object.entries(metadata ?? {}).find(([key, value]) => !HEADER_NAME.test(key) || !PRINTABLE.test(value))
  return wrong === undefined
    ? Effect.void
    : badConfig("metadata", `metadata ${JSON.stringify(wrong[0])} cannot be a header: keys and values must be plain ASCII.`)
}

/** The table of types is large, so it is loaded by the first upload. */
const mime = Effect.promise(async () => (await import("mime")).default)

/** Resolves an object's name and type. */
export const resolveObject = Effect.fnUntraced(
  function*(object: ContentHints, options: Options): Effect.fn.Return<ResolvedObject, UploadError> {
    const types = yield* mime
    const expires = yield* expiresOf(options.expires)
    yield* checkMetadata(options.metadata)
    const given = options.name ?? object.name
    const utf8 = (type: string) => object.text === true && type.startsWith("text/") ? `${type}; charset=utf-8` : type
    const ending = types.getExtension(options.contentType ?? object.contentType)
    const name = given === undefined
      ? `${crypto.randomUUID()}${ending === null ? "" : `.${ending}`}`
      : ObjectName.fileName(given)
    const job = yield* Effect.serviceOption(CurrentJob)
    const folder = ObjectName.segment(Option.match(job, { onNone: () => crypto.randomUUID(), onSome: ({ id }) => id }))
    const own = options.key === undefined ? ObjectName.join(folder, name) : ObjectName.path(options.key)
    if (own === "") {
      return yield* badConfig(
        "key",
        `key ${JSON.stringify(options.key)} cannot name an object: nothing is left of it when it is made safe.`
      )
    }
    const key = ObjectName.join(ObjectName.path(options.prefix ?? ""), own)
    const last = key.slice(key.lastIndexOf("/") + 1)
    return {
      key,
      name: last,
      contentType: options.contentType ?? utf8(types.getType(last) ?? object.contentType),
      expires
    }
  }
)

/** Builds the service from its `store` method and its destination. */
export const make = (
  store: Uploads["Service"]["store"],
  destination: Uploads["Service"]["destination"]
): Uploads["Service"] => ({
  store,
  destination,
  file: (path, options) =>
    Effect.scoped(Effect.gen(function*() {
      if (typeof path !== "string" && path.protocol !== "file:") {
        return yield* badConfig(
          "path",
          `${path.protocol}//${path.host}is not a file; only file: addresses and paths can be uploaded.`
        )
      }
      const location = typeof path === "string" ? path : fileURLToPath(path)
      const content = yield* Content.file(location)
      return (yield* store(content, { name: location, contentType: "application/octet-stream" }, options)).url
    })),
  bytes: (data, options) =>
    Effect.map(
      typeof data === "string"
        ? store(Content.bytes(Buffer.from(data)), { name: undefined, contentType: "text/plain", text: true }, options)
        : store(Content.bytes(data), { name: undefined, contentType: "application/octet-stream" }, options),
      ({ url }) => url
    ),
  stream: (data, options) =>
    Effect.map(
      store(Content.stream(data), { name: undefined, contentType: "application/octet-stream" }, options),
      ({ url }) => url
    )
})
