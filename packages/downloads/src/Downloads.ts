/**
 * Downloads the URLs of a job's input to files (docs/spec/downloads.md#downloading-files).
 *
 * ```
 *   url --GuardedHttp--> body --> file in the folder of the job's scope --> { path, name, size, contentType }
 *    ^                    |
 *    +-- delay, retry ----+  lost connection, timeout, 408, 425, 429, 5xx: 3 retries
 * ```
 *
 * The scope's first download creates the folder. It is removed when the scope closes: when the job ends, fails or is stopped.
 *
 * | variable | default | meaning |
 * |---|---|---|
 * | `PLATFORM_DOWNLOAD_ALLOW`, `RUNPOD_DOWNLOAD_ALLOW` | none | private ranges that downloads can reach, as `10.1.2.3, fd00:1::/64` |
 *
 * Anyone who may submit a job can read every address in `DOWNLOAD_ALLOW`. List single hosts, not networks, and never `169.254.169.254`, where
 * clouds serve this machine's credentials.
 */
import { ENV_PREFIXES } from "@stint/contract/WorkerProtocol"
import * as AddressGuard from "@stint/http-guard/AddressGuard"
import * as GuardedHttp from "@stint/http-guard/GuardedHttp"
import { GuardedHttpError, InvalidUrl, TooLarge } from "@stint/http-guard/GuardedHttpError"
import * as RequestUrl from "@stint/http-guard/RequestUrl"
import * as Resolver from "@stint/http-guard/Resolver"
import type * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { tmpdir } from "node:os"
import * as ContentDisposition from "./ContentDisposition.ts"
import * as DataUrl from "./DataUrl.ts"
import { DownloadError, type TotalSizeExceeded, type WriteFailed } from "./DownloadError.ts"
import * as SafeName from "./SafeName.ts"
import * as TargetFolder from "./TargetFolder.ts"

/** A downloaded file. */
export interface DownloadedFile {
  /** Absolute. */
  readonly path: string
  /** The last part of the path: the server's name for the file, made safe and unique. */
  readonly name: string
  /** Decoded size. Bytes. */
  readonly size: number
  /** The server's content type, in lower case and without parameters: `image/png`. It is not verified. */
  readonly contentType: string | undefined
}

/** Options for one download, or for each download in a list. */
export interface Options {
  /** Request headers; only harmless ones are sent to another origin. Default: none. */
  readonly headers?: { readonly [name: string]: string }
  /** The maximum size of a file. Bytes. Default: the layer's limit. */
  readonly maxBytes?: number
  /** How often a failed attempt is retried. Default: the layer's setting. */
  readonly retries?: number
}

/** Options for one download. */
export interface FileOptions extends Options {
  /** The file's name, also made safe and unique. Default: derived from the server's response or the URL. */
  readonly name?: string
}

/** Options for the layer. */
export interface Settings extends GuardedHttp.Settings {
  /** The maximum size of a file. Bytes. Default: 5 GiB, which is enough for most model files; the limit protects the disk. */
  readonly maxBytes?: number
  /** The limit for all files of one job together. Bytes. Default: 20 GiB, the size of a small container's disk. */
  readonly maxTotalBytes?: number
  /** Concurrent downloads of one job. Default: 8. A higher number helps with many small files from a distant server. */
  readonly concurrency?: number
  /** How often a failed attempt is retried. Default: 3, with delays of about 5 s in total. More retries survive longer outages. */
  readonly retries?: number
  /** Time limit for one attempt. Milliseconds. Default: 1 hour; the job's own `executionTimeout` is usually shorter. */
  readonly totalTimeout?: number
  /** Where temporary folders are created. Default: the system's. Name a larger disk if the files do not fit there. */
  readonly directory?: string
}

const GIB = 1024 ** 3

const DEFAULTS = {
  maxBytes: 5 * GIB,
  maxTotalBytes: 20 * GIB,
  concurrency: 8,
  retries: 3,
  totalTimeout: 60 * 60_000
} as const

/** The bounds of the delay between attempts. Milliseconds. */
const INITIAL_RETRY_DELAY = 1000
const MAX_RETRY_DELAY = 30_000

/** The maximum `Retry-After` that is honoured. Milliseconds. */
const MAX_RETRY_AFTER = 60_000

/** Downloads files. */
export class Downloads extends Context.Service<Downloads, {
  /** Downloads one file into the scope's temporary folder. */
  readonly file: (url: string | URL, options?: FileOptions) => Effect.Effect<DownloadedFile, DownloadError, Scope.Scope>
  /**
   * Downloads several files into the scope's temporary folder, concurrently. Returns them in the order of the URLs. The first failure interrupts the
   * other downloads.
   */
  readonly files: (
    urls: ReadonlyArray<string | URL>,
    options?: Options
  ) => Effect.Effect<ReadonlyArray<DownloadedFile>, DownloadError, Scope.Scope>
  /**
   * Downloads several files into this folder, which is created if needed. The files are not removed when the scope closes. If one fails,
   * or the fiber is interrupted, the files from this call are removed.
   */
  readonly into: (
    folder: string,
    urls: ReadonlyArray<string | URL>,
    options?: Options
  ) => Effect.Effect<ReadonlyArray<DownloadedFile>, DownloadError>
}>()("@stint/downloads/Downloads") {}

/** The delay before the next attempt, in milliseconds; undefined if a retry cannot succeed. */
const waitAfter = (
  error: GuardedHttpError | WriteFailed | TotalSizeExceeded,
  tries: number
): Effect.Effect<number | undefined> => {
  if (error._tag !== "GuardedHttpError" || !error.transient) return Effect.succeed(undefined)
  const asked = error.reason._tag === "UnexpectedStatus" ? error.reason.retryAfter ?? 0 : 0
  if (asked > MAX_RETRY_AFTER) return Effect.succeed(undefined)
  const whole = Math.min(MAX_RETRY_DELAY, INITIAL_RETRY_DELAY * 2 ** Math.min(tries - 1, 30))
  return Effect.map(Random.next, (random) => asked + Math.round(whole * (asked > 0 ? random / 2 : 0.5 + random / 2)))
}

const contentTypeOf = (headers: GuardedHttp.Response["headers"]): string | undefined => {
  const type = headers["content-type"]?.split(";", 1)[0]?.trim().toLowerCase()
  return type === undefined || type === "" ? undefined : type
}

const make = Effect.fnUntraced(function*(settings: Settings) {
  const http = yield* GuardedHttp.GuardedHttp
  const defaults = { ...DEFAULTS, ...settings }
  const folders = new WeakMap<Scope.Scope, TargetFolder.TargetFolder>()

  /** The folder of the current scope, created at first use. */
  const folderOfScope = Effect.uninterruptible(Effect.gen(function*() {
    const scope = yield* Scope.Scope
    const known = folders.get(scope)
    if (known !== undefined) return known
    const folder = yield* TargetFolder.makeTemporary(settings.directory ?? tmpdir(), defaults)
    folders.set(scope, folder)
    yield* Effect.addFinalizer(() => Effect.andThen(Effect.sync(() => folders.delete(scope)), TargetFolder.removeAll(folder)))
    return folder
  }))

  const fromData = Effect.fnUntraced(function*(folder: TargetFolder.TargetFolder, url: string, options: FileOptions) {
    const limit = options.maxBytes ?? defaults.maxBytes
    const data = DataUrl.parse(url)
    if (data === undefined) {
      return yield* new GuardedHttpError({
        url: RequestUrl.redactedUrl(url),
        reason: new InvalidUrl({ detail: "it is not data:[type][;base64],... with whole base64" })
      })
    }
    const { bytes, contentType } = data
    if (bytes.byteLength > limit) {
      const reason = new TooLarge({ limit, announced: bytes.byteLength })
      return yield* new GuardedHttpError({ url: RequestUrl.redactedUrl(url), reason })
    }
    const name = SafeName.safe(options.name ?? SafeName.withEnding(SafeName.FALLBACK, contentType))
    return { ...(yield* folder.write(name, Stream.succeed(bytes))), contentType }
  })

  const fromHttp = Effect.fnUntraced(function*(folder: TargetFolder.TargetFolder, url: string | URL, options: FileOptions) {
    const response = yield* http.request(url, {
      ...(options.headers === undefined ? {} : { headers: options.headers }),
      maxBytes: options.maxBytes ?? defaults.maxBytes,
      totalTimeout: defaults.totalTimeout
    }).pipe(Effect.flatMap(GuardedHttp.success))
    const contentType = contentTypeOf(response.headers)
    const proposed = options.name ?? ContentDisposition.fileName(response.headers["content-disposition"])
    const name = proposed === undefined
      ? SafeName.withEnding(SafeName.safe(SafeName.fromUrl(response.url) ?? ""), contentType)
      : SafeName.safe(proposed)
    return { ...(yield* folder.write(name, response.body)), contentType }
  }, Effect.scoped)

  const download = (folder: TargetFolder.TargetFolder, url: string | URL, options: FileOptions) => {
    const text = typeof url === "string" ? url : url.href
    const redactedUrl = RequestUrl.redactedUrl(url)
    const once = folder.slots.withPermit(
      DataUrl.isDataUrl(text) ? fromData(folder, text, options) : fromHttp(folder, url, options)
    )
    return Effect.gen(function*() {
      const retries = options.retries ?? defaults.retries
      for (let tries = 1;; tries++) {
        const result = yield* Effect.result(once)
        if (Result.isSuccess(result)) {
          const file: DownloadedFile = result.success
          yield* Effect.annotateCurrentSpan({ "file.size": file.size, "download.tries": tries })
          return file
        }
        const error = result.failure
        const wait = tries > retries ? undefined : yield* waitAfter(error, tries)
        if (wait === undefined) {
          return yield* error._tag === "GuardedHttpError"
            ? new DownloadError({ url: error.url, reason: error.reason, tries })
            : new DownloadError({ url: redactedUrl, reason: error, tries })
        }
        yield* Effect.logWarning(`The download failed, trying again in ${wait} ms (${tries} of ${retries}). ${error.message}`)
        yield* Effect.sleep(wait)
      }
    }).pipe(Effect.withSpan("download", { attributes: { "url.full": redactedUrl } }))
  }

  const asDownloadError = (url: string) => Effect.mapError((reason: WriteFailed) => new DownloadError({ url, reason, tries: 1 }))

  const all = (folder: TargetFolder.TargetFolder, urls: ReadonlyArray<string | URL>, options: Options) =>
    Effect.forEach(urls, (url) => download(folder, url, options), { concurrency: defaults.concurrency })

  return Downloads.of({
    file: (url, options = {}) =>
      folderOfScope.pipe(
        asDownloadError(RequestUrl.redactedUrl(url)),
        Effect.flatMap((folder) => download(folder, url, options))
      ),
    files: (urls, options = {}) =>
      folderOfScope.pipe(
        asDownloadError(`${urls.length} files`),
        Effect.flatMap((folder) => all(folder, urls, options))
      ),
    into: (path, urls, options = {}) =>
      TargetFolder.makeAt(path, defaults).pipe(
        asDownloadError(`${urls.length} files`),
        Effect.flatMap((folder) => {
          const done: Array<DownloadedFile> = []
          return Effect.forEach(
            urls,
            (url) => Effect.tap(download(folder, url, options), (file) => Effect.sync(() => void done.push(file))),
            { concurrency: defaults.concurrency }
          ).pipe(
            Effect.onExit((exit) => Exit.isSuccess(exit) ? Effect.void : Effect.forEach(done, folder.remove, { discard: true }))
          )
        })
      )
  })
})

/** Downloads one file. See {@link Downloads}. */
export const file = (
  url: string | URL,
  options?: FileOptions
): Effect.Effect<DownloadedFile, DownloadError, Downloads | Scope.Scope> =>
  Effect.flatMap(Downloads, (downloads) => downloads.file(url, options))

/** Downloads several files. See {@link Downloads}. */
export const files = (
  urls: ReadonlyArray<string | URL>,
  options?: Options
): Effect.Effect<ReadonlyArray<DownloadedFile>, DownloadError, Downloads | Scope.Scope> =>
  Effect.flatMap(Downloads, (downloads) => downloads.files(urls, options))

/** Downloads several files into a folder that the caller specifies. See {@link Downloads}. */
export const into = (
  folder: string,
  urls: ReadonlyArray<string | URL>,
  options?: Options
): Effect.Effect<ReadonlyArray<DownloadedFile>, DownloadError, Downloads> =>
  Effect.flatMap(Downloads, (downloads) => downloads.into(folder, urls, options))

/** Downloads with any HTTP client, such as a test client. The address settings belong to the client and are ignored here. */
export const layerNoDeps = (settings: Settings = {}): Layer.Layer<Downloads, never, GuardedHttp.GuardedHttp> =>
  Layer.effect(Downloads, make(settings))

/** Downloads with these settings; does not read the environment. Fails when a range cannot be parsed. */
export const layerWith = (settings: Settings): Layer.Layer<Downloads, AddressGuard.InvalidRange> =>
  layerNoDeps(settings).pipe(
    Layer.provide(GuardedHttp.layerWith(settings)),
    Layer.provide(Resolver.layer)
  )

/** A variable is invalid. The message contains its name and value. */
export class DownloadsConfigError extends Schema.TaggedError<DownloadsConfigError>()("DownloadsConfigError", {
  variable: Schema.String,
  message: Schema.String
}) {}

const ALLOW = "DOWNLOAD_ALLOW"

const fromEnvironment = Effect.gen(function*() {
  const { ranges: allow, variable } = yield* AddressGuard.rangesFromConfig(ENV_PREFIXES.map((prefix) => prefix + ALLOW))
  if (allow.length === 0) return Layer.orDie(layerWith({}))
  yield* Effect.logWarning(
    `${variable} opens ${
      allow.join(", ")
    } to downloads: every caller who can submit a job can read the content of these addresses.`
  )
  return layerWith({ allow }).pipe(
    Layer.catch((error) =>
      Layer.effect(Downloads, new DownloadsConfigError({ variable, message: `${variable}: ${error.message}` }))
    )
  )
})

/** Downloads with settings from the environment (see the top of this file). */
export const layer: Layer.Layer<Downloads, DownloadsConfigError | Config.ConfigError> = Layer.unwrap(fromEnvironment)
