/**
 * Models from a model hub, which the platform stores once for all workers on its machine (docs/operations/models.md).
 *
 * ```
 *   absent --prepare--> downloading --all files present and correct---> ready --least recently used, space is needed--> absent
 *                          ^    |
 *                          |    v
 *                         failed: retried at `retryAt`, while an endpoint needs it
 * ```
 */
import * as Schema from "effect/Schema"
import { EndpointId } from "../Ids.ts"
import { SecretName } from "./Secret.ts"

const NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_-])?"
const REVISION = "[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,198}[A-Za-z0-9_-])?"

/** Names with valid characters that would nevertheless point to another folder in the cache. */
const isAmbiguous = (text: string): boolean => /--|\.\.|\/\.|\.\/|\/\/|\.lock(?:\/|$)/.test(text)

const modelText = (pattern: RegExp, message: string) =>
  Schema.String.check(
    Schema.isPattern(pattern, { message }),
    Schema.makeFilter((text) => !isAmbiguous(text) || message)
  )

/** A model's id on the hub: `owner/name`. */
export const ModelId = modelText(
  new RegExp(`^${NAME}/${NAME}$`),
  "Expected a model's id, for example openai/whisper-large-v3"
)
export type ModelId = typeof ModelId.Type

/** A model, optionally at a branch, a tag or a commit: `owner/name` or `owner/name@revision`. */
export const ModelReference = modelText(
  new RegExp(`^${NAME}/${NAME}(?:@${REVISION})?$`),
  "Expected a model's id with an optional revision, for example openai/whisper-large-v3 or openai/whisper-large-v3@main"
)
export type ModelReference = typeof ModelReference.Type

/** The revision of a reference without one: the hub's default branch. */
const DEFAULT_REVISION = "main"

/** The id and the revision in a reference. */
export const modelParts = (reference: ModelReference): { readonly id: ModelId; readonly revision: string } => {
  const at = reference.indexOf("@")
  return at === -1
    ? { id: reference, revision: DEFAULT_REVISION }
    : { id: reference.slice(0, at), revision: reference.slice(at + 1) }
}

/** A model in the cache: one commit of it. Times are in milliseconds since 1970. */
export const CachedModel = Schema.Struct({
  model: Schema.String,
  /** The commit's id on the hub. */
  commit: Schema.String,
  /** The branches and tags that pointed to this commit when it was downloaded. */
  revisions: Schema.Array(Schema.String),
  files: Schema.Int,
  /** The size of the files. Two commits of a model share equal files. */
  bytes: Schema.Int,
  /** When a worker last started with it, or when it was downloaded. */
  lastUsedAt: Schema.Int,
  /** The number of this platform's workers that use it. A model in use is not removed. */
  workers: Schema.Int,
  /** The endpoints whose `model` this is. */
  endpoints: Schema.Array(EndpointId)
})
export type CachedModel = typeof CachedModel.Type

/** A download in progress, or the last one if it failed. */
export const ModelDownload = Schema.Struct({
  model: ModelReference,
  state: Schema.Literals(["downloading", "failed"]),
  /** The downloaded bytes. */
  receivedBytes: Schema.Int,
  /** Absent until the hub has listed the files. */
  totalBytes: Schema.optionalKey(Schema.Int),
  /** Why it failed. */
  reason: Schema.optionalKey(Schema.String),
  /** When it is retried, if an endpoint needs it. Milliseconds since 1970. */
  retryAt: Schema.optionalKey(Schema.Int)
})
export type ModelDownload = typeof ModelDownload.Type

/** The cache of this machine. */
export const ModelCache = Schema.Struct({
  /** The folder of the cache, in the layout of the hub's own client. */
  folder: Schema.String,
  /** The hub's address. */
  hub: Schema.String,
  /** The size of everything in the folder. */
  bytes: Schema.Int,
  /** The maximum size. Absent: limited only by the disk. */
  limitBytes: Schema.optionalKey(Schema.Int),
  models: Schema.Array(CachedModel),
  downloads: Schema.Array(ModelDownload)
})
export type ModelCache = typeof ModelCache.Type

/** The body of `POST /api/v1/models`. */
export const ModelPull = Schema.Struct({
  model: ModelReference,
  /** The secret that contains the hub's token. Default: none, which is enough for public models. */
  token: Schema.optionalKey(SecretName)
})

/** The response to a removal. */
export const ModelRemoval = Schema.Struct({
  /** The size of the files that were removed. */
  freedBytes: Schema.Int
})
