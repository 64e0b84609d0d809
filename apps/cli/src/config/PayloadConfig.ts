/**
 * Settings for payloads: size limits, and the store for large payloads. If a value is invalid, the platform does not start, and the error
 * names the variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_LIMIT_RUN` | 10 MiB, or 64 MiB with `STINT_PAYLOADS` | largest body of `/run`; larger bodies use more memory and delay other callers |
 * | `STINT_LIMIT_RUNSYNC` | 20 MiB, or 64 MiB | largest body of `/runsync` |
 * | `STINT_LIMIT_RESULT` | 20 MiB, or 64 MiB | largest result of a worker; a larger result fails the job |
 * | `STINT_LIMIT_CHUNK` | 1 MiB | largest streamed chunk or progress value; both are stored in the database |
 * | `STINT_LIMIT_BATCH` | 10 MiB | largest body of a batch call |
 * | `STINT_PAYLOADS` | none | store for large inputs and outputs: `dir:/srv/payloads` or `s3://bucket/prefix` |
 * | `STINT_PAYLOADS_THRESHOLD` | 256 KiB | payloads above this size move to the store; a lower value keeps the database smaller, a higher one saves round trips to the store |
 * | `STINT_PAYLOADS_ENDPOINT` | AWS | URL of the S3 service, for example `http://127.0.0.1:9000` |
 * | `STINT_PAYLOADS_REGION` | us-east-1 | region of the bucket |
 * | `STINT_PAYLOADS_ACCESS_KEY_ID`, `STINT_PAYLOADS_SECRET_ACCESS_KEY` | | credentials that may list, put, get and delete in the bucket |
 * | `STINT_PAYLOADS_MEMORY` | 512 MiB | memory for bodies and responses of 1 MiB or more; above it, the response is 503 with Retry-After |
 */
import { bytesInWords, defaults } from "@stint/server/Limits"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { resolve } from "node:path"
import { CliFailure } from "../CliFailure.ts"
import { secretSetting, setting } from "./Setting.ts"
import type { SettingName } from "./SettingNames.ts"
import { bytesOf } from "./SizeText.ts"

/** The store for large payloads. */
export type PayloadLocation =
  | { readonly _tag: "Directory"; readonly folder: string }
  | {
    readonly _tag: "Bucket"
    readonly bucket: string
    readonly prefix: string
    readonly endpoint: string | undefined
    readonly region: string
    readonly accessKeyId: string
    readonly secretAccessKey: Redacted.Redacted
  }

/** Size limits in bytes, and the store for large payloads. */
export interface PayloadSettings {
  readonly runBytes: number
  readonly runsyncBytes: number
  readonly resultBytes: number
  readonly chunkBytes: number
  readonly batchBytes: number
  /** Memory for large bodies and responses. Bytes. */
  readonly memoryBytes: number
  readonly location: Option.Option<PayloadLocation>
  /** Payloads with more characters than this move to the store. */
  readonly threshold: number
}

const KIBIBYTE = 1024
const MEBIBYTE = 1024 * KIBIBYTE

/**
 * The upper bound of every limit. A body is a string in memory, a string can have at most 512 million characters, and a webhook may contain
 * both an input and an output.
 */
const LARGEST = 200 * MEBIBYTE

/** Default limits of inputs and outputs when a payload store is configured. */
const WITH_STORE = 64 * MEBIBYTE

const Size = (minimum: number, maximum: number) =>
  Schema.String.check(
    Schema.makeFilter((text) => {
      const bytes = bytesOf(text)
      return (bytes !== undefined && bytes >= minimum && bytes <= maximum) || "a size"
    })
  )

/** One variable that holds a size. */
export const size = (
  name: SettingName,
  fallback: number,
  { maximum = LARGEST, minimum = KIBIBYTE }: { readonly minimum?: number; readonly maximum?: number } = {}
): Effect.Effect<number, CliFailure> =>
  setting(
    name,
    `a size from ${bytesInWords(minimum)}${maximum === Infinity ? " on" : ` to ${bytesInWords(maximum)}`}, for example ${
      bytesInWords(fallback)
    }`,
    Config.schema(Size(minimum, maximum), name).pipe(
      Config.map((text) => bytesOf(text) ?? fallback),
      Config.withDefault(fallback)
    )
  )

/** One variable that holds a size, which may be 0; undefined when it is not set. */
export const optionalSize = (name: SettingName, example: string): Effect.Effect<number | undefined, CliFailure> =>
  setting(
    name,
    `a size, for example ${example}, or 0`,
    Config.schema(Size(0, Infinity), name).pipe(Config.map(bytesOf), Config.withDefault(undefined))
  )

const BUCKET = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/([A-Za-z0-9._/-]*))?$/

const Place = Schema.String.check(
  Schema.makeFilter((text) => /^dir:.+$/.test(text) || BUCKET.test(text) || "dir:/path or s3://bucket/prefix")
)

const Address = Schema.String.check(
  Schema.makeFilter((text) => /^https?:\/\/[^\s/?#@]+\/?$/.test(text) || "an http or https address")
)

/** A variable that the bucket requires. */
const needed = <A>(name: SettingName, found: Option.Option<A>): Effect.Effect<A, CliFailure> =>
  Option.match(found, {
    onSome: Effect.succeed,
    onNone: () =>
      Effect.fail(
        new CliFailure({
          message: `STINT_PAYLOADS names a bucket, but ${name} is not set.`,
          hint:
            "Set STINT_PAYLOADS_ACCESS_KEY_ID and STINT_PAYLOADS_SECRET_ACCESS_KEY to credentials that may list the bucket and put, get and delete its objects."
        })
      )
  })

const bucketOf = Effect.fnUntraced(function*(bucket: string, prefix: string): Effect.fn.Return<PayloadLocation, CliFailure> {
  const text = (name: SettingName, shape: string) => setting(name, shape, Config.option(Config.NonEmptyString(name)))
  const id = yield* text("STINT_PAYLOADS_ACCESS_KEY_ID", "the id of a key")
  const secret = yield* secretSetting(
    "STINT_PAYLOADS_SECRET_ACCESS_KEY",
    "the secret of a key",
    Config.option(Config.Redacted("STINT_PAYLOADS_SECRET_ACCESS_KEY"))
  )
  const endpoint = yield* setting(
    "STINT_PAYLOADS_ENDPOINT",
    "the URL of an S3 service without a path, for example http://127.0.0.1:9000",
    Config.option(Config.schema(Address, "STINT_PAYLOADS_ENDPOINT"))
  )
  const region = yield* text("STINT_PAYLOADS_REGION", "a region, for example eu-central-1")
  return {
    _tag: "Bucket",
    bucket,
    prefix: prefix.replace(/^\/+|\/+$/g, ""),
    endpoint: Option.getOrUndefined(endpoint)?.replace(/\/$/, ""),
    region: Option.getOrElse(region, () => "us-east-1"),
    accessKeyId: yield* needed("STINT_PAYLOADS_ACCESS_KEY_ID", id),
    secretAccessKey: yield* needed("STINT_PAYLOADS_SECRET_ACCESS_KEY", secret)
  }
})

const location = Effect.gen(function*() {
  const place = yield* setting(
    "STINT_PAYLOADS",
    "a folder or a bucket, for example dir:/srv/payloads or s3://bucket/prefix",
    Config.option(Config.schema(Place, "STINT_PAYLOADS"))
  )
  if (Option.isNone(place)) return Option.none<PayloadLocation>()
  const [, bucket, prefix = ""] = BUCKET.exec(place.value) ?? []
  return Option.some<PayloadLocation>(
    bucket === undefined
      ? { _tag: "Directory", folder: resolve(place.value.slice("dir:".length)) }
      : yield* bucketOf(bucket, prefix)
  )
})

/** Reads the settings. Fails on the first invalid setting. */
export const load: Effect.Effect<PayloadSettings, CliFailure> = Effect.gen(function*() {
  const where = yield* location
  const limit = (name: SettingName, without: number) => size(name, Option.isSome(where) ? WITH_STORE : without)
  return {
    location: where,
    threshold: yield* size("STINT_PAYLOADS_THRESHOLD", 256 * KIBIBYTE),
    runBytes: yield* limit("STINT_LIMIT_RUN", defaults.runBytes),
    runsyncBytes: yield* limit("STINT_LIMIT_RUNSYNC", defaults.runsyncBytes),
    resultBytes: yield* limit("STINT_LIMIT_RESULT", defaults.resultBytes),
    chunkBytes: yield* size("STINT_LIMIT_CHUNK", defaults.chunkBytes),
    batchBytes: yield* size("STINT_LIMIT_BATCH", defaults.batchBytes),
    memoryBytes: yield* size("STINT_PAYLOADS_MEMORY", 512 * MEBIBYTE, { minimum: MEBIBYTE, maximum: Infinity })
  }
})
