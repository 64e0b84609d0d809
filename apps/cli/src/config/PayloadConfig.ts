/**
 * The settings of payloads: how large they may be, and where large ones are kept. A wrong value stops the boot and names the variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_LIMIT_RUN` | 10 MiB, or 64 MiB with `STINT_PAYLOADS` | the largest body of `/run`; larger ones take memory and time, of the callers behind them too |
 * | `STINT_LIMIT_RUNSYNC` | 20 MiB, or 64 MiB | the same of `/runsync` |
 * | `STINT_LIMIT_RESULT` | 20 MiB, or 64 MiB | the largest result of a worker; a larger one fails its job |
 * | `STINT_LIMIT_CHUNK` | 1 MiB | the largest streamed chunk or progress value; they stay in the database |
 * | `STINT_LIMIT_BATCH` | 10 MiB | the largest body of a batch call |
 * | `STINT_PAYLOADS` | none | where large inputs and outputs are kept: `dir:/srv/payloads` or `s3://bucket/prefix` |
 * | `STINT_PAYLOADS_THRESHOLD` | 256 KiB | larger ones move; a lower one keeps the database smaller, a higher one saves the way to the store |
 * | `STINT_PAYLOADS_ENDPOINT` | AWS | the bucket's storage, `http://127.0.0.1:9000` for example |
 * | `STINT_PAYLOADS_REGION` | us-east-1 | the bucket's region |
 * | `STINT_PAYLOADS_ACCESS_KEY_ID`, `STINT_PAYLOADS_SECRET_ACCESS_KEY` | | the key to the bucket; it lists, puts, gets and deletes |
 * | `STINT_PAYLOADS_MEMORY` | 512 MiB | what bodies and answers of 1 MiB and more may hold of the memory at once; beyond, callers are asked to come back |
 */
import { bytesInWords, defaults } from "@stint/server/Limits"
import * as ByteSize from "effect/ByteSize"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { resolve } from "node:path"
import { CliFailure } from "../CliFailure.ts"
import { setting } from "./Setting.ts"

/** Where large payloads are kept. */
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

/** How large payloads may be, in bytes, and where large ones go. */
export interface PayloadSettings {
  readonly runBytes: number
  readonly runsyncBytes: number
  readonly resultBytes: number
  readonly chunkBytes: number
  readonly batchBytes: number
  /** What large ones may hold of the memory at once. */
  readonly memoryBytes: number
  readonly location: Option.Option<PayloadLocation>
  /** Texts of more characters than this move. */
  readonly threshold: number
}

const KIBIBYTE = 1024
const MEBIBYTE = 1024 * KIBIBYTE

/**
 * No body may be larger: it is a text in memory, a text has 512 million characters at the most, and a webhook may hold an input and an
 * output.
 */
const LARGEST = 200 * MEBIBYTE

/** What inputs and outputs may have where they are not in the database. */
const WITH_STORE = 64 * MEBIBYTE

/** Bytes of a text like `10 MiB`, `10MB` or `10485760`; undefined where it is none. */
const bytesOf = (text: string): number | undefined =>
  Option.getOrUndefined(
    Option.map(ByteSize.fromString(/^\s*\d+\s*$/.test(text) ? `${text.trim()} B` : text), Number)
  )

const Size = (minimum: number, maximum: number) =>
  Schema.String.check(
    Schema.makeFilter((text) => {
      const bytes = bytesOf(text)
      return (bytes !== undefined && bytes >= minimum && bytes <= maximum) || "a size"
    })
  )

/** One variable that is a size. */
export const size = (
  name: string,
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

const BUCKET = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/([A-Za-z0-9._/-]*))?$/

const Place = Schema.String.check(
  Schema.makeFilter((text) => /^dir:.+$/.test(text) || BUCKET.test(text) || "dir:/path or s3://bucket/prefix")
)

const Address = Schema.String.check(
  Schema.makeFilter((text) => /^https?:\/\/[^\s/?#@]+\/?$/.test(text) || "an http or https address")
)

/** A variable without which the bucket is of no use. */
const needed = <A>(name: string, found: Option.Option<A>): Effect.Effect<A, CliFailure> =>
  Option.match(found, {
    onSome: Effect.succeed,
    onNone: () =>
      Effect.fail(
        new CliFailure({
          message: `Large payloads are to go to a bucket (STINT_PAYLOADS), and ${name} is not set.`,
          hint:
            "Set STINT_PAYLOADS_ACCESS_KEY_ID and STINT_PAYLOADS_SECRET_ACCESS_KEY to a key that may list the bucket and put, get and delete its objects."
        })
      )
  })

const bucketOf = Effect.fnUntraced(function*(bucket: string, prefix: string): Effect.fn.Return<PayloadLocation, CliFailure> {
  const text = (name: string, shape: string) => setting(name, shape, Config.option(Config.NonEmptyString(name)))
  const id = yield* text("STINT_PAYLOADS_ACCESS_KEY_ID", "the id of a key")
  const secret = yield* setting(
    "STINT_PAYLOADS_SECRET_ACCESS_KEY",
    "the secret of a key",
    Config.option(Config.Redacted("STINT_PAYLOADS_SECRET_ACCESS_KEY"))
  )
  const endpoint = yield* setting(
    "STINT_PAYLOADS_ENDPOINT",
    "the address of a storage without a path, for example http://127.0.0.1:9000",
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

/** Reads the settings; fails with the first one that is wrong. */
export const load: Effect.Effect<PayloadSettings, CliFailure> = Effect.gen(function*() {
  const where = yield* location
  const limit = (name: string, without: number) => size(name, Option.isSome(where) ? WITH_STORE : without)
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
