/**
 * The service that handlers use to send results to storage, and what it is built of.
 *
 * ```
 *   file / bytes / stream -> Destination.resolve -> S3.write, S3.sign -> https: address, good for `expires`
 *                                   | no bucket
 *                                   +-> LocalFolder.write -> file: address
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

/** How one upload differs from the defaults. */
export interface Options {
  /**
   * The file's name, the last part of the object's. Default: that of the file; for bytes and streams a random one. Made safe.
   */
  readonly name?: string | undefined
  /**
   * The object's whole name, in place of `{job id}/{name}`. Without a job's id in it, one job can overwrite another's object. Empty
   * parts, `.` and `..` are dropped, the others made safe.
   */
  readonly key?: string | undefined
  /** Goes before the object's name. */
  readonly prefix?: string | undefined
  /** Default: by the ending of the name, else `application/octet-stream`, or `text/plain; charset=utf-8` for a text. */
  readonly contentType?: string | undefined
  readonly contentEncoding?: string | undefined
  /** `attachment; filename="..."` makes browsers save the object instead of showing it. */
  readonly contentDisposition?: string | undefined
  readonly cacheControl?: string | undefined
  /** Who may read the object without a signature. Default: the bucket's own rule; many storages accept nothing else. */
  readonly acl?: Acl | undefined
  /** Kept with the object; keys and values are ASCII, 2 kB in all. */
  readonly metadata?: { readonly [key: string]: string } | undefined
  /** The bucket, in place of the one that the credentials name. */
  readonly bucket?: string | undefined
  /** A storage for this upload, in place of the job's and the environment's. */
  readonly credentials?: Credentials | undefined
  /**
   * How long the address works: 1 second to 7 days, the most that S3 allows and the default. Shorter is safer, since whoever has the
   * address can read the object; longer outlives the results of jobs, which go after a day.
   */
  readonly expires?: Duration.Input | undefined
}

/** What became of an upload. */
export interface Uploaded {
  /** Presigned, `https:` mostly; `file:` where there was no bucket. */
  readonly url: URL
  /** The object's name in its bucket or folder. */
  readonly key: string
  /** Undefined: a folder. */
  readonly bucket: string | undefined
  /** Bytes. */
  readonly size: number
  readonly contentType: string
  /** When the address stops working; undefined: never. */
  readonly expiresAt: Date | undefined
}

/** Uploads of this worker. */
export class Uploads extends Context.Service<Uploads, {
  /** Uploads a file. It is read part by part, so its size does not matter. */
  readonly file: (path: string | URL, options?: Options) => Effect.Effect<URL, UploadError>
  /** Uploads bytes, or a text as UTF-8. */
  readonly bytes: (data: Uint8Array | string, options?: Options) => Effect.Effect<URL, UploadError>
  /** Uploads what a stream emits; nothing of it can be read before it has ended. */
  readonly stream: <E, R>(
    data: Stream.Stream<Uint8Array, E, R>,
    options?: Options
  ) => Effect.Effect<URL, UploadError | E, R>
  /** Uploads anything, and tells all about it. The others are this. */
  readonly store: <E, R>(
    content: Content.Content<E, R>,
    object: ContentHints,
    options?: Options
  ) => Effect.Effect<Uploaded, UploadError | E, R>
  /** Where an upload with these options would go. */
  readonly destination: (options?: Options) => Effect.Effect<Destination["_tag"], UploadError>
}>()("@stint/worker-uploads/Uploads") {}

/** What is known of a content besides its bytes. */
export interface ContentHints {
  /** The name where the options give none; undefined: a random one. Need not be safe. */
  readonly name: string | undefined
  /** The type where the name has no ending that tells. */
  readonly contentType: string
  /** It is text, in UTF-8: types of texts say so. */
  readonly text?: boolean
}

/** An object's name and type, decided. */
export interface ResolvedObject {
  /** Without the destination's own prefix. */
  readonly key: string
  /** The last part of the key: for people. */
  readonly name: string
  readonly contentType: string
  /** Seconds. */
  readonly expires: number
}

/** The most that S3 allows, seven days. */
const MAX_EXPIRES = Duration.days(7)

const expiresOf = (input: Duration.Input | undefined): Effect.Effect<number, UploadError> => {
  const seconds = Math.floor(Duration.toSeconds(input ?? MAX_EXPIRES))
  return seconds >= 1 && seconds <= Duration.toSeconds(MAX_EXPIRES)
    ? Effect.succeed(seconds)
    : badConfig("expires", `expires is ${seconds} seconds; an address can be good for 1 second to 7 days (604800), S3's most.`)
}

/** Metadata goes into headers, which hold nothing else. */
const PRINTABLE = /^[\u0020-\u007e]*$/
const HEADER_NAME = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/

const checkMetadata = (metadata: Options["metadata"]): Effect.Effect<void, UploadError> => {
  const wrong = Object.entries(metadata ?? {}).find(([key, value]) => !HEADER_NAME.test(key) || !PRINTABLE.test(value))
  return wrong === undefined
    ? Effect.void
    : badConfig("metadata", `metadata ${JSON.stringify(wrong[0])} cannot be a header: keys and values must be plain ASCII.`)
}

/** Tables of types are large, so they are loaded with the first upload. */
const mime = Effect.promise(async () => (await import("mime")).default)

/** Decides an object's name and type. */
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
        `key ${JSON.stringify(options.key)} is no name for an object: nothing is left when it is made safe.`
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

/** The service around its one duty. */
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
          `${path.protocol}//${path.host} is no file; only file: addresses and paths can be uploaded.`
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
