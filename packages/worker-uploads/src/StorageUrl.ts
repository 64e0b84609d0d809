/**
 * What the address of an S3-compatible storage tells: its region, a bucket in it, and how objects are addressed there. Pure.
 *
 * ```
 *  https://s3.eu-west-1.amazonaws.com                    region eu-west-1
 *  https://photos.s3.eu-west-1.amazonaws.com             region eu-west-1, bucket photos
 *  https://s3.eu-west-1.amazonaws.com/photos/2026        region eu-west-1, bucket photos, prefix 2026
 *  https://photos.nyc3.digitaloceanspaces.com            region nyc3, bucket photos
 *  https://<account>.r2.cloudflarestorage.com/photos     region auto, bucket photos
 *  http://127.0.0.1:9000                                 no region
 *  http://127.0.0.1:9000/photos                          bucket photos, if no other is named
 *  https://gateway.example/s3                            bucket s3, or the beginning of every path, if another bucket is named
 * ```
 *
 * Consoles of storages show addresses in all of these forms, and people paste what they are shown. Buckets are addressed in the
 * host at AWS, which asks for it, and in the path everywhere else, where it always works.
 */
import * as Result from "effect/Result"

/** A storage's address, taken apart. */
export interface StorageUrl {
  /** Scheme, host, port and base path, without a slash at the end and without the bucket. */
  readonly url: string
  /** Undefined: the address does not tell. */
  readonly region: string | undefined
  /** Undefined: there is none in the address. */
  readonly bucket: string | undefined
  /** What follows the bucket in the address; empty mostly. */
  readonly prefix: string
  /** The bucket belongs into the path; else before the host's name. */
  readonly pathStyle: boolean
}

/** `us-east-1`, `us-gov-west-1`, `ap-southeast-3`, `us-west-004`. */
const REGION = String.raw`[a-z]{2,3}(?:-[a-z]+)+-\d+`
const BUCKET = String.raw`(?:(?<bucket>.+?)\.)?`

interface Provider {
  /** The whole host, with groups `bucket`, `region`, `host`: the storage's own address where it is not simply what is left. */
  readonly host: RegExp
  /** The region of a host that names none. */
  readonly region?: string
  readonly pathStyle: boolean
  /** The host of the API, where it cannot be had by leaving out the bucket. */
  readonly api?: (region: string, host: string) => string
}

const provider = (pattern: string, rest: Omit<Provider, "host">): Provider => ({ host: new RegExp(`^${pattern}$`), ...rest })
const others = { pathStyle: true } as const

/** The first that fits counts. */
const PROVIDERS: ReadonlyArray<Provider> = [
  // AWS: s3.amazonaws.com, s3.REGION, s3-REGION, dualstack, FIPS, China.
  provider(String.raw`${BUCKET}s3(?:-fips)?(?:\.dualstack)?(?:[.-](?<region>${REGION}))?\.amazonaws\.com(?:\.cn)?`, {
    pathStyle: false
  }),
  // The address of a bucket's web site serves it and takes nothing.
  provider(String.raw`${BUCKET}s3-website[.-](?<region>${REGION})\.amazonaws\.com(?:\.cn)?`, {
    pathStyle: false,
    api: (region, host) => `s3.${region}.amazonaws.com${host.endsWith(".cn") ? ".cn" : ""}`
  }),
  provider(String.raw`${BUCKET}s3-accelerate(?:\.dualstack)?\.amazonaws\.com`, { pathStyle: false }),
  provider(String.raw`(?:(?:bucket|accesspoint)\.)?vpce-[^.]+\.s3\.(?<region>${REGION})\.vpce\.amazonaws\.com`, {
    pathStyle: true,
    api: (_, host) => host
  }),
  // DigitalOcean; the address of its CDN takes nothing.
  provider(String.raw`${BUCKET}(?<region>[a-z]{3}\d)(?:\.cdn)?\.digitaloceanspaces\.com`, {
    pathStyle: true,
    api: (region) => `${region}.digitaloceanspaces.com`
  }),
  provider(String.raw`${BUCKET}s3\.(?<region>[a-z0-9-]+)\.backblazeb2\.com`, others),
  provider(String.raw`${BUCKET}s3(?:\.(?<region>[a-z0-9-]+))?\.wasabisys\.com`, others),
  // Cloudflare: the account, not the bucket, stands before it.
  provider(String.raw`${BUCKET}(?<account>[a-z0-9]{4,})(?:\.(?:eu|fedramp))?\.r2\.cloudflarestorage\.com`, {
    pathStyle: true,
    region: "auto"
  }),
  provider(String.raw`${BUCKET}s3\.(?<region>[a-z]{2}-[a-z]{3})\.scw\.cloud`, others),
  provider(String.raw`${BUCKET}s3\.(?<region>[a-z0-9-]+?)(?:\.(?:io|perf))?\.cloud\.ovh\.(?:net|us|ca)`, others),
  provider(String.raw`${BUCKET}(?<region>[a-z]{2}-[a-z]+-\d+)\.linodeobjects\.com`, others),
  provider(String.raw`${BUCKET}(?<region>[a-z]{3}\d)\.your-objectstorage\.com`, others),
  provider(String.raw`${BUCKET}(?<region>[a-z]{3}\d)\.vultrobjects\.com`, others),
  provider(String.raw`${BUCKET}sos-(?<region>[a-z]{2}-[a-z]+-\d+)\.exo\.io`, others),
  provider(String.raw`${BUCKET}storage\.googleapis\.com`, { pathStyle: true, region: "auto" })
]

/** Storages that follow AWS's naming: `s3.us-south-1.example.com`. */
const NAMED_LIKE_AWS = new RegExp(String.raw`(?:^|\.)s3[.-](?<region>${REGION})\.`)

const decoded = (segment: string): string => {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

const segmentsOf = (path: string): ReadonlyArray<string> => path.split("/").filter((one) => one !== "").map(decoded)

/**
 * Takes an address apart, or says what is wrong with it, as the rest of a sentence. `named` is the bucket, where somebody named
 * one; it counts more than one in the address. A missing scheme is `https`.
 */
export const parse = (address: string, named: string | undefined): Result.Result<StorageUrl, string> => {
  const text = address.trim()
  const full = text.includes("://") ? text : `https://${text}`
  if (!URL.canParse(full)) return Result.fail("is no http or https address")
  const url = new URL(full)
  if (url.protocol !== "http:" && url.protocol !== "https:") return Result.fail("is no http or https address")
  // The value itself is not shown then.
  if (url.username !== "" || url.password !== "") {
    return Result.fail("holds a user's name or password, which has no place there")
  }

  const host = url.hostname
  const [first, ...rest] = segmentsOf(url.pathname)
  const found = PROVIDERS.find((one) => one.host.test(host))
  const port = url.port === "" ? "" : `:${url.port}`

  if (found !== undefined) {
    const groups = found.host.exec(host)?.groups
    const region = groups?.["region"] ?? found.region
    const inHost = groups?.["bucket"]
    const api = found.api !== undefined && region !== undefined
      ? found.api(region, host)
      : inHost === undefined
      ? host
      : host.slice(inHost.length + 1)
    // Such a host has no base paths: what is in its path is a bucket, unless that stands in the host.
    const [inPath, prefix] = inHost === undefined ? [first, rest] : [undefined, first === undefined ? [] : [first, ...rest]]
    return Result.succeed({
      url: `${url.protocol}//${api}${port}`,
      region,
      bucket: named ?? inHost ?? inPath,
      prefix: prefix.join("/"),
      pathStyle: found.pathStyle
    })
  }

  const origin = `${url.protocol}//${host}${port}`
  const region = NAMED_LIKE_AWS.exec(host)?.groups?.["region"]
  const isBase = named !== undefined && first !== undefined && first !== named
  return Result.succeed({
    url: isBase ? origin + url.pathname.replace(/\/+$/, "") : origin,
    region,
    bucket: named ?? first,
    prefix: isBase ? "" : rest.join("/"),
    pathStyle: true
  })
}
