/**
 * Downloads and uploads, for handler functions (docs/spec/downloads.md#downloading-files, docs/spec/uploads.md#uploading-files). Each module is
 * loaded on first use.
 */
import type { Options as Downloading } from "@stint/downloads/Downloads"
import type { Credentials, Options } from "@stint/worker-uploads/Uploads"
import { CurrentJob } from "@stint/worker/CurrentJob"
import * as RunningJob from "@stint/worker/RunningJob"
import { previewValue } from "@stint/worker/ValuePreview"
import * as Effect from "effect/Effect"
import * as ManagedRuntime from "effect/ManagedRuntime"
import { join, resolve } from "node:path"
import { removeAfterJob } from "./JobFiles.ts"
import { lazy, run } from "./PromiseRuntime.ts"

/** The credentials and the address of a bucket, as callers send them in `s3Config` (docs/spec/jobs-api.md#request-body). */
export type BucketCredentials = Credentials

/** The metadata of an uploaded object, under the names of S3 clients. */
export interface ExtraArgs {
  readonly ACL?: Options["acl"]
  readonly CacheControl?: string
  readonly ContentDisposition?: string
  readonly ContentEncoding?: string
  readonly ContentType?: string
  readonly Metadata?: { readonly [key: string]: string }
}

/** Options for downloads. RunPod's SDK does not have them. */
export type DownloadOptions = Pick<Downloading, "headers" | "maxBytes" | "retries">

/** One storage client for the process, so that its connections are reused. */
const uploads = lazy(async () => {
  const { Uploads } = await import("@stint/worker-uploads")
  const context = await run(ManagedRuntime.make(Uploads.layer).contextEffect)
  return { Uploads, context }
})

const downloads = lazy(async () => {
  const [{ Downloads }, { safe }] = await Promise.all([
    import("@stint/downloads"),
    import("@stint/downloads/SafeName")
  ])
  const context = await run(ManagedRuntime.make(Downloads.layer).contextEffect)
  return { Downloads, context, safe }
})

/**
 * The object's key: in the folder of the job that the calling code belongs to, because jobs of other callers may use the same name. A name
 * that contains the job's id is used unchanged.
 */
const keyOf = (name: string): string => {
  const id = RunningJob.service(CurrentJob)?.id
  return id === undefined || name.includes(id) ? name : `${id.replaceAll(/[/\\]/g, "_")}/${name}`
}

const optionsOf = (
  name: string,
  credentials: BucketCredentials | undefined | null,
  bucket: string | undefined | null,
  prefix: string | undefined | null,
  extra: ExtraArgs = {}
): Options => ({
  key: keyOf(name),
  bucket: bucket ?? undefined,
  credentials: credentials ?? undefined,
  prefix: prefix ?? undefined,
  acl: extra.ACL,
  cacheControl: extra.CacheControl,
  contentDisposition: extra.ContentDisposition,
  contentEncoding: extra.ContentEncoding,
  contentType: extra.ContentType,
  metadata: extra.Metadata
})

/**
 * Uploads a file as `{prefix}/{job id}/{file_name}`, so that jobs do not overwrite each other's objects. A `file_name` that contains the
 * job's id becomes `{prefix}/{file_name}`, as does any name outside a job. Returns a presigned URL that is valid for seven days.
 *
 * The target is the bucket from `bucket_creds`, or else from the job's `s3Config`, or else from the `BUCKET_*` variables. If no bucket is
 * set, the file is copied into the folder `local_upload` in the working directory, and the function returns its path. Rejects with an error
 * that names the problem and the remedy.
 *
 * @example
 * ```ts
 * const url = await sdk.utils.upload_file_to_bucket("result.mp4", "/tmp/result.mp4")
 * ```
 */
export const upload_file_to_bucket = async (
  file_name: string,
  file_location: string,
  bucket_creds?: BucketCredentials | null,
  bucket_name?: string | null,
  prefix?: string | null,
  extra_args?: ExtraArgs
): Promise<string> => {
  const { context, Uploads } = await uploads()
  const options = optionsOf(file_name, bucket_creds, bucket_name, prefix, extra_args)
  return Uploads.toText(await run(Effect.provideContext(Uploads.file(file_location, options), context)))
}

/**
 * Uploads bytes or text. Returns a presigned URL that is valid for seven days. The object's name, the target and the errors are the same as
 * for {@link upload_file_to_bucket}.
 *
 * @example
 * ```ts
 * const url = await sdk.utils.upload_in_memory_object("thumbnail.jpg", bytes)
 * ```
 */
export const upload_in_memory_object = async (
  file_name: string,
  file_data: Uint8Array | string,
  bucket_creds?: BucketCredentials | null,
  bucket_name?: string | null,
  prefix?: string | null
): Promise<string> => {
  const { context, Uploads } = await uploads()
  const options = optionsOf(file_name, bucket_creds, bucket_name, prefix)
  return Uploads.toText(await run(Effect.provideContext(Uploads.bytes(file_data, options), context)))
}

const ARGUMENTS = "download_files_from_urls(job_id, urls)"

/** The URLs as a list. Throws an error that names a missing or invalid one. */
const listOf = (urls: unknown): ReadonlyArray<string | URL | null> => {
  const isUrl = (value: unknown): value is string | URL =>
    (typeof value === "string" && value.trim() !== "") || value instanceof URL
  const list: ReadonlyArray<unknown> = Array.isArray(urls) ? urls : [urls]
  return list.map((url, index) => {
    if (isUrl(url) || (url === null && Array.isArray(urls))) return url
    const where = Array.isArray(urls) ? `urls[${index}]` : "urls"
    throw new TypeError(
      `${ARGUMENTS}: ${where} is ${
        previewValue(url)
      }, not a URL. Check that the job's input has the key that the handler reads, ` +
        "for example with rp_validator.validate."
    )
  })
}

/**
 * Downloads the URLs of a job's input into `jobs/{job_id}/downloaded_files` in the working directory, several at a time. Returns the
 * absolute paths in the order of the URLs, with null for a null in the list.
 *
 * The worker removes the files when the job ends: upload or move those that must stay. Files of any other `job_id` stay until the handler removes
 * them.
 *
 * Rejects URLs, and redirects, that lead to an address inside the network (docs/spec/downloads.md#address-guard). When one download
 * fails, the others are cancelled and the promise rejects with the reason for the failure. Rejects with a TypeError that names the position
 * of a missing URL.
 *
 * @example
 * ```ts
 * const [photo] = await sdk.utils.download_files_from_urls(job.id, job.input.url, { maxBytes: 20_000_000 })
 * ```
 */
export async function download_files_from_urls(
  job_id: string,
  urls: string | URL | ReadonlyArray<string | URL>,
  options?: DownloadOptions
): Promise<Array<string>>
export async function download_files_from_urls(
  job_id: string,
  urls: ReadonlyArray<string | URL | null>,
  options?: DownloadOptions
): Promise<Array<string | null>>
export async function download_files_from_urls(
  job_id: string,
  urls: string | URL | ReadonlyArray<string | URL | null>,
  options: DownloadOptions = {}
): Promise<Array<string | null>> {
  const list = listOf(urls)
  const { context, Downloads, safe } = await downloads()
  const folder = join(resolve("jobs", safe(job_id)), "downloaded_files")
  removeAfterJob(job_id, folder)
  const wanted = list.filter((url) => url !== null)
  const files = await run(Effect.provideContext(Downloads.into(folder, wanted, options), context))
  const paths = files.map(({ path }) => path)
  return list.map((url) => url === null ? null : paths.shift() ?? null)
}
