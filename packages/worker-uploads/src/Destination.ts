/**
 * Determines where an upload goes.
 *
 * ```
 *   credentials of the call          upload_file_to_bucket(..., bucket_creds)
 *        | none
 *   the job's s3Config               the caller's own bucket (docs/spec/uploads.md#destination)
 *        | none
 *   BUCKET_* variables               the endpoint's bucket (docs/spec/environment.md#other-variables)
 *        | unset
 *   a folder in the working directory (docs/spec/uploads.md#upload-rule)
 * ```
 *
 * The first source that is present is used. Missing settings are never filled in from the next source, so that a key is never sent to an
 * address for which it is not intended. An incomplete source is an error.
 */
import { S3Config } from "@stint/contract/Job"
import { CurrentJob } from "@stint/worker/CurrentJob"
import type { ReceivedJob } from "@stint/worker/CurrentJob"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import * as ObjectName from "./ObjectName.ts"
import * as StorageUrl from "./StorageUrl.ts"
import { badConfig } from "./UploadError.ts"
import type { UploadError } from "./UploadError.ts"

/** The address of a storage service, and a key for it. */
export interface Credentials {
  /** Any form that `StorageUrl` parses. */
  readonly endpointUrl: string
  readonly accessId: string
  readonly accessSecret: string | Redacted.Redacted
  /** Default: the bucket in the address; without one, the bucket of the month. */
  readonly bucketName?: string
  /** Prepended to every object's name. */
  readonly objectPath?: string
  /** Default: the region in the address, then `AWS_REGION`, then `us-east-1`. */
  readonly region?: string
}

/** The source of the bucket; errors name which of its settings to correct. */
export type Origin = "options" | "job" | "environment"

/**
 * Whether the operator chose the storage. Any other address may come from a caller: requests to it pass the address guard, and errors do
 * not quote its responses, because they would show a caller the content of servers inside the network.
 */
export const isTrusted = (origin: Origin): boolean => origin === "environment"

/** A bucket with all its settings resolved. */
export interface Bucket {
  readonly _tag: "Bucket"
  readonly origin: Origin
  /** The address of the storage, without the bucket. */
  readonly endpoint: string
  readonly region: string
  readonly pathStyle: boolean
  readonly accessId: string
  readonly accessSecret: Redacted.Redacted
  readonly bucket: string
  /** No source names a bucket, so this is the bucket of the month. */
  readonly unnamed: boolean
  /** Prepended to every object's name; may be empty. */
  readonly prefix: string
}

/** A folder on this machine. */
export interface Folder {
  readonly _tag: "Folder"
}

/** Where an upload goes. */
export type Destination = Bucket | Folder

/** The settings in the environment: a key, if configured, and this machine's default region. */
export interface Environment {
  readonly credentials: Credentials | undefined
  readonly region: string | undefined
}

/** The names of the three variables (docs/spec/uploads.md#destination). */
export const VARIABLES = ["BUCKET_ENDPOINT_URL", "BUCKET_ACCESS_KEY_ID", "BUCKET_SECRET_ACCESS_KEY"] as const

const variable = (name: string): Config.Config<string | undefined> =>
  Config.map(Config.option(Config.String(name)), (value) => {
    const text = Option.getOrElse(value, () => "").trim()
    return text === "" ? undefined : text
  })

/**
 * Reads the variables. Fails if only some of the three are set: the operator wanted to use a bucket, and a worker that silently writes to
 * its own disk instead would lose every result.
 */
export const environment: Effect.Effect<Environment, UploadError | Config.ConfigError> = Effect.gen(function*() {
  const [endpointUrl, accessId, accessSecret] = [
    yield* variable(VARIABLES[0]),
    yield* variable(VARIABLES[1]),
    yield* variable(VARIABLES[2])
  ]
  const bucketName = yield* variable("BUCKET_NAME")
  const bucketRegion = yield* variable("BUCKET_REGION")
  const region = (yield* variable("AWS_REGION")) ?? (yield* variable("AWS_DEFAULT_REGION"))
  if (endpointUrl === undefined && accessId === undefined && accessSecret === undefined) {
    return { credentials: undefined, region }
  }
  if (endpointUrl === undefined || accessId === undefined || accessSecret === undefined) {
    const values = [endpointUrl, accessId, accessSecret]
    const missing = VARIABLES.filter((_, index) => values[index] === undefined)
    const present = VARIABLES.filter((_, index) => values[index] !== undefined)
    return yield* badConfig(
      missing[0] ?? VARIABLES[0],
      `${present.join(" and ")} ${present.length === 1 ? "is" : "are"} set, so uploads are meant to go to a bucket, but ` +
        `${missing.join(" and ")} ${
          missing.length === 1 ? "is" : "are"
        } not. Set all three, or none to write uploads to a local folder.`
    )
  }
  const credentials: Credentials = {
    endpointUrl,
    accessId,
    accessSecret: Redacted.make(accessSecret),
    ...(bucketName === undefined ? {} : { bucketName }),
    ...(bucketRegion === undefined ? {} : { region: bucketRegion })
  }
  yield* bucketOf("environment", credentials, undefined, region)
  return { credentials, region }
})

/** The names of the settings in each source. */
const SETTINGS: Record<Origin, { readonly [Key in "endpointUrl" | "accessId" | "accessSecret" | "bucketName"]: string }> = {
  environment: {
    endpointUrl: VARIABLES[0],
    accessId: VARIABLES[1],
    accessSecret: VARIABLES[2],
    bucketName: "BUCKET_NAME"
  },
  job: {
    endpointUrl: "s3Config.endpointUrl",
    accessId: "s3Config.accessId",
    accessSecret: "s3Config.accessSecret",
    bucketName: "s3Config.bucketName"
  },
  options: {
    endpointUrl: "credentials.endpointUrl",
    accessId: "credentials.accessId",
    accessSecret: "credentials.accessSecret",
    bucketName: "bucket"
  }
}

/** The names of a source's settings. */
export const settingsOf = (origin: Origin) => SETTINGS[origin]

/** The names that S3 allows, and those that older and other storage services also allow: upper case, underscores. */
const BUCKET_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$/

/**
 * The bucket of the month, `MM-YY` in UTC: the bucket to which the original SDK writes if no bucket is named. It is supported for workers
 * that rely on it; errors about it explain how to name another bucket.
 */
const monthOf = (millis: number): string => {
  const date = new Date(millis)
  return `${String(date.getUTCMonth() + 1).padStart(2, "0")}-${String(date.getUTCFullYear() % 100).padStart(2, "0")}`
}

/** Resolves the bucket of these credentials. Fails with the name of the invalid setting. */
export const bucketOf = Effect.fnUntraced(function*(
  origin: Origin,
  credentials: Credentials,
  named: string | undefined,
  machineRegion: string | undefined
): Effect.fn.Return<Bucket, UploadError> {
  const settings = SETTINGS[origin]
  const accessSecret = typeof credentials.accessSecret === "string"
    ? Redacted.make(credentials.accessSecret)
    : credentials.accessSecret
  const empty = credentials.endpointUrl.trim() === ""
    ? settings.endpointUrl
    : credentials.accessId.trim() === ""
    ? settings.accessId
    : Redacted.value(accessSecret).trim() === ""
    ? settings.accessSecret
    : undefined
  if (empty !== undefined) return yield* badConfig(empty, `${empty} is empty; an upload to a bucket needs it.`)

  const asked = [named, credentials.bucketName].find((one) => one !== undefined && one.trim() !== "")?.trim()
  const endpoint = yield* Effect.mapError(
    Effect.fromResult(StorageUrl.parse(credentials.endpointUrl, asked)),
    (problem) =>
      badConfig(
        settings.endpointUrl,
        `${settings.endpointUrl} ${problem}. It is the storage's address, such as https://s3.eu-west-1.amazonaws.com.`
      )
  )
  const bucket = endpoint.bucket ?? monthOf(yield* Clock.currentTimeMillis)
  if (!BUCKET_NAME.test(bucket)) {
    const setting = asked === undefined ? settings.endpointUrl : settings.bucketName
    return yield* badConfig(
      setting,
      `The bucket name ${JSON.stringify(bucket)}, from ${setting}, is invalid: use letters, digits, dots and hyphens.`
    )
  }
  return {
    _tag: "Bucket",
    origin,
    endpoint: endpoint.url,
    region: credentials.region ?? endpoint.region ?? machineRegion ?? "us-east-1",
    pathStyle: endpoint.pathStyle,
    accessId: credentials.accessId.trim(),
    accessSecret,
    bucket,
    unnamed: endpoint.bucket === undefined,
    prefix: ObjectName.join(ObjectName.path(endpoint.prefix), ObjectName.path(credentials.objectPath ?? ""))
  }
})

const JobConfig = Schema.Struct({ ...S3Config.fields, accessSecret: Schema.RedactedFromValue(Schema.String) })
const decodeJobConfig = Schema.decodeUnknownEffect(JobConfig)
const issuesOf = SchemaIssue.makeFormatterStandardSchemaV1()

/** The bucket of the job's `s3Config`; undefined if it has none. */
const jobCredentials = Effect.fnUntraced(
  function*(job: ReceivedJob): Effect.fn.Return<Credentials | undefined, UploadError> {
    const config = job["s3Config"]
    if (config === undefined || config === null) return undefined
    // Some clients send null for options that their caller did not set.
    const given = Predicate.isObject(config)
      ? Object.fromEntries(Object.entries(config).filter(([, value]) => value !== null))
      : config
    return yield* Effect.mapError(decodeJobConfig(given, { errors: "all" }), ({ issue }) => {
      // The messages of the issues quote the values, one of which may be a misplaced secret.
      const keys = issuesOf(issue).issues.map(({ path }) => ["s3Config", ...(path ?? []).map(String)].join("."))
      const wrong = [...new Set(keys)].join(" and ")
      return badConfig(
        keys[0] ?? "s3Config",
        `The job's s3Config cannot be used: ${wrong} must be ${
          keys.length === 1 && wrong === "s3Config" ? "an object" : "a text"
        }. ` +
          "It is {accessId, accessSecret, endpointUrl, bucketName?, objectPath?}."
      )
    })
  }
)

/** A call's settings for the destination. */
export interface Choice {
  readonly credentials?: Credentials | undefined
  readonly bucket?: string | undefined
}

/** Resolves the destination of one call. */
export const resolve = Effect.fnUntraced(function*(
  { bucket, credentials }: Choice,
  environment: Environment,
  acceptJobConfig: boolean
): Effect.fn.Return<Destination, UploadError> {
  if (credentials !== undefined) return yield* bucketOf("options", credentials, bucket, environment.region)
  const job = yield* Effect.serviceOption(CurrentJob)
  const fromJob = acceptJobConfig && Option.isSome(job) ? yield* jobCredentials(job.value) : undefined
  // This machine's region does not apply to a caller's bucket.
  if (fromJob !== undefined) return yield* bucketOf("job", fromJob, bucket, undefined)
  if (environment.credentials !== undefined) {
    return yield* bucketOf("environment", environment.credentials, bucket, environment.region)
  }
  return { _tag: "Folder" }
})
