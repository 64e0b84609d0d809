/**
 * The model hub's HTTP API, as its own client uses it.
 *
 * ```
 *   GET  /api/models/{id}/revision/{revision}?blobs=true    the commit, and its files with sizes and checksums
 *   HEAD /{id}/resolve/{commit}/{path}                      size and checksum of a file that the list describes without them
 *   GET  /{id}/resolve/{commit}/{path}                      the content, usually by a redirect to a storage service
 * ```
 *
 * The token is sent to the hub only: `GuardedHttp` drops it from requests to other origins.
 */
import { modelParts, type ModelReference } from "@stint/contract/Model"
import type { SecretName } from "@stint/contract/Secret"
import * as GuardedHttp from "@stint/http-guard/GuardedHttp"
import type { GuardedHttpError } from "@stint/http-guard/GuardedHttpError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { checksumOf, COMMIT, isSafeBlob, isSafePath, type ModelFile } from "./CacheLayout.ts"
import { ModelError } from "./ModelError.ts"

/** What to download, and with which token. */
export interface DownloadRequest {
  readonly model: ModelReference
  readonly token: { readonly secret: SecretName; readonly value: Redacted.Redacted } | undefined
}

/** The files of a commit. */
export interface Contents {
  readonly commit: string
  readonly files: ReadonlyArray<ModelFile>
}

export interface Hub {
  /** Without a slash at the end. */
  readonly url: string
  /** The commit of a revision, and its files. */
  readonly contents: (wish: DownloadRequest) => Effect.Effect<Contents, ModelError>
  /** The content of a file, starting at an offset. `from` is the offset at which the body begins: 0 if the hub ignores offsets. */
  readonly open: (
    wish: DownloadRequest,
    commit: string,
    file: ModelFile,
    offset: number
  ) => Effect.Effect<
    { readonly from: number; readonly body: Stream.Stream<Uint8Array, ModelError> },
    ModelError,
    Scope.Scope
  >
}

/** The maximum size of the list of files. Bytes. */
const MAX_LIST_BYTES = 32 * 1024 ** 2

/** The maximum number of files in a model. More would be a data set. */
const MAX_FILES = 20_000

/** Time limit for one file, in milliseconds: a day. A request ends earlier after 30 s without data. */
const FILE_TIMEOUT = 86_400_000

/** A negative size would hide the sizes of other files from the limits of the cache. Bytes. */
const Size = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const decodeList = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({
  sha: Schema.String,
  siblings: Schema.Array(Schema.Struct({
    rfilename: Schema.String,
    size: Schema.optionalKey(Schema.NullOr(Size)),
    blobId: Schema.optionalKey(Schema.NullOr(Schema.String)),
    lfs: Schema.optionalKey(Schema.NullOr(Schema.Struct({
      sha256: Schema.optionalKey(Schema.String),
      size: Schema.optionalKey(Size)
    })))
  }))
})))

/** `"abc"` and `W/"abc"` are `abc`. */
const plainEtag = (etag: string): string => etag.replace(/^W\//, "").replaceAll("\"", "")

const fail = (model: string, problem: string, hint: string, isTransient = false) =>
  Effect.fail(new ModelError({ model, problem, hint, isTransient }))

const toModelError = (model: string, hub: string) => (error: GuardedHttpError) =>
  new ModelError({
    model,
    problem: error.message.replace(/\.$/, ""),
    hint: error.transient
      ? "The download continues where it stopped, when it is tried again."
      : `Check STINT_MODELS_HUB, which is ${hub}, and whether this machine reaches it.`,
    isTransient: error.transient
  })

/** Explains a rejected request. The hub names the kind of rejection in a header. */
const refused = ({ model, token }: DownloadRequest, hub: string, { headers, status }: GuardedHttp.Response) => {
  const { id, revision } = modelParts(model)
  const kind = headers["x-error-code"] ?? ""
  const answer = `the hub responded with status ${status}${kind === "" ? "" : ` (${kind})`}`
  if (kind === "GatedRepo") {
    return fail(
      model,
      `${answer}: its authors require that each user accepts their conditions`,
      token === undefined
        ? `Accept them at ${hub}/${id}, store a token of that account (stint secrets set hf-token), and name it: --model-token hf-token.`
        : `Accept them at ${hub}/${id} with the account of the token in the secret "${token.secret}".`
    )
  }
  if (kind === "RevisionNotFound") {
    return fail(
      model,
      `${answer}: it has no branch, tag or commit "${revision}"`,
      `Correct the revision; ${hub}/${id} lists them.`
    )
  }
  if (kind === "EntryNotFound") return fail(model, `${answer}: a file of it was removed`, "Deploy the endpoint again.", true)
  if (status === 401 || status === 403) {
    return token === undefined
      ? fail(
        model,
        `${answer}: it does not exist, or it is private`,
        "Correct its id, or store a token with access to it (stint secrets set hf-token) and name it: --model-token hf-token."
      )
      : fail(
        model,
        `${answer}: the token in the secret "${token.secret}" is not valid, or has no access to it`,
        `Replace the token: stint secrets set ${token.secret}`
      )
  }
  if (status === 404) return fail(model, `${answer}: it does not exist`, `Correct its id: ${hub}/${id} must be a model.`)
  const isTransient = status === 429 || status >= 500
  return fail(model, answer, isTransient ? "The platform will retry." : `Check STINT_MODELS_HUB, which is ${hub}.`, isTransient)
}

const encodePath = (path: string): string => path.split("/").map(encodeURIComponent).join("/")

/** `baseUrl`: the hub's address. */
export const make = Effect.fnUntraced(function*(baseUrl: string): Effect.fn.Return<Hub, never, GuardedHttp.GuardedHttp> {
  const http = yield* GuardedHttp.GuardedHttp
  const url = baseUrl.replace(/\/+$/, "")

  const request = (wish: DownloadRequest, path: string, options: GuardedHttp.Options) =>
    http.request(url + path, {
      ...options,
      headers: {
        ...options.headers,
        ...(wish.token === undefined ? {} : { authorization: `Bearer ${Redacted.value(wish.token.value).trim()}` })
      }
    }).pipe(Effect.mapError(toModelError(wish.model, url)))

  const urlOf = (wish: DownloadRequest, commit: string, path: string) =>
    `/${modelParts(wish.model).id}/resolve/${commit}/${encodePath(path)}`

  /** The size and the checksum of a file whose description in the list lacks them. */
  const head = Effect.fnUntraced(
    function*(wish: DownloadRequest, commit: string, path: string) {
      // A redirect to a storage service has the hub's headers; the storage service sends different ones.
      const response = yield* request(wish, urlOf(wish, commit, path), { method: "HEAD", stopAtOtherOrigins: true })
      if (response.status >= 400) return yield* refused(wish, url, response)
      const { headers } = response
      const blob = plainEtag(headers["x-linked-etag"] ?? headers["etag"] ?? "")
      // The length of a redirect is the length of its own body. An absent size must not become 0, because the file would count as empty.
      const size = Number(
        (headers["x-linked-size"] ?? (response.status < 300 ? headers["content-length"] : undefined)) || Number.NaN
      )
      const found = headers["x-repo-commit"]
      if (!isSafeBlob(blob) || !Number.isSafeInteger(size) || size < 0 || (found !== undefined && found !== commit)) {
        return yield* fail(
          wish.model,
          `the hub describes its file ${path} without a usable ETag, size and commit`,
          `Check STINT_MODELS_HUB, which is ${url}.`
        )
      }
      const file: ModelFile = { path, size, blob, checksum: checksumOf(blob) }
      return file
    },
    Effect.scoped
  )

  return {
    url,
    contents: Effect.fnUntraced(
      function*(wish) {
        const { id, revision } = modelParts(wish.model)
        const response = yield* request(
          wish,
          `/api/models/${id}/revision/${encodeURIComponent(revision)}?blobs=true`,
          { maxBytes: MAX_LIST_BYTES, headers: { accept: "application/json" } }
        )
        if (response.status !== 200) return yield* refused(wish, url, response)
        const text = yield* Effect.mapError(
          Stream.mkString(Stream.decodeText(response.body)),
          toModelError(wish.model, url)
        )
        const list = Option.getOrUndefined(decodeList(text))
        if (list === undefined || !COMMIT.test(list.sha)) {
          return yield* fail(wish.model, "the hub's list of its files cannot be read", `Check STINT_MODELS_HUB, which is ${url}.`)
        }
        const paths = list.siblings.map(({ rfilename }) => rfilename)
        const unsafe = paths.find((path) => !isSafePath(path))
        if (unsafe !== undefined || paths.length > MAX_FILES || new Set(paths).size < paths.length) {
          return yield* fail(
            wish.model,
            unsafe === undefined
              ? `it has ${paths.length} files, some of which may have the same name; at most ${MAX_FILES} are downloaded`
              : `the name of its file ${JSON.stringify(unsafe)} leads out of the cache`,
            "Use another model."
          )
        }
        const files = yield* Effect.forEach(list.siblings, ({ blobId, lfs, rfilename, size }) => {
          const blob = lfs?.sha256 ?? blobId ?? ""
          const bytes = lfs?.size ?? size ?? undefined
          return checksumOf(blob) === "none" || bytes === undefined
            ? head(wish, list.sha, rfilename)
            : Effect.succeed({ path: rfilename, size: bytes, blob, checksum: checksumOf(blob) } satisfies ModelFile)
        }, { concurrency: 8 })
        const contents: Contents = { commit: list.sha, files }
        return contents
      },
      Effect.scoped
    ),
    open: Effect.fnUntraced(function*(wish, commit, file, offset) {
      const response = yield* request(wish, urlOf(wish, commit, file.path), {
        maxBytes: file.size,
        totalTimeout: FILE_TIMEOUT,
        ...(offset === 0 ? {} : { headers: { range: `bytes=${offset}-` } })
      })
      const isPartial = response.status === 206 &&
        Number(/^bytes (\d+)-/.exec(response.headers["content-range"] ?? "")?.[1]) === offset
      if (response.status !== 200 && !isPartial) return yield* refused(wish, url, response)
      return { from: isPartial ? offset : 0, body: Stream.mapError(response.body, toModelError(wish.model, url)) }
    })
  }
})
