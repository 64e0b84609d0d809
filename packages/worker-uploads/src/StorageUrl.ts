/**
 * Parses the address of an S3-compatible storage service: its region, its bucket, and how it addresses objects. Pure.
 *
 * ```
 *  https://s3.eu-west-1.amazonaws.com                    region eu-west-1
 *  https://photos.s3.eu-west-1.amazonaws.com             region eu-west-1, bucket photos
 *  https://s3.eu-west-1.amazonaws.com/photos/2026        region eu-west-1, bucket photos, prefix 2026
 *  https://photos.nyc3.digitaloceanspaces.com            region nyc3, bucket photos
 *  https://<account>.r2.cloudflarestorage.com/photos     region auto, bucket photos
 *  http://127.0.0.1:9000                                 no region
 *  http://127.0.0.1:9000/photos                          bucket photos, if no other is named
 *  https://gateway.example/s3                            bucket s3, or a base path, if another bucket is named
 * ```
 *
 * Storage providers' consoles show addresses in all of these forms, and people paste them. For AWS, the bucket is part of the host name,
 * as AWS requires; elsewhere it is part of the path, which always works.
 */
import * as Result from "effect/Result"

/** A parsed storage address. */
export interface StorageUrl {
  /** Scheme, host, port and base path, without the bucket and without a trailing slash. */
  readonly url: string
  /** Undefined if the address does not contain one. */
  readonly region: string | undefined
  /** Undefined if the address does not contain one. */
  readonly bucket: string | undefined
  /** The path after the bucket in the address; usually empty. */
  readonly prefix: string
  /** Whether the bucket is in the path; otherwise it is part of the host name. */
  readonly pathStyle: boolean
}

/** `us-east-1`, `us-gov-west-1`, `ap-southeast-3`, `us-west-004`. */
const REGION = String.raw`[a-z]{2,3}(?:-[a-z]+)+-\d+`
const BUCKET = String.raw`(?:(?<bucket>.+?)\.)?`

interface Provider {
  /** Matches the whole host, with groups `bucket`, `region` and `host`: the storage's own host, if it is not the rest of the match. */
  readonly host: RegExp
  /** The region for a host that contains none. */
  readonly region?: string
  readonly pathStyle: boolean
  /** The host of the API, if it is not the host without the bucket. */
  readonly api?: (region: string, host: string) => string
}

const provider = (pattern: string, rest: Omit<Provider, "host">): Provider => ({ host: new RegExp(`^${pattern}$`), ...rest })
const others = { pathStyle: true } as const

/** The first match is used. */
const PROVIDERS: ReadonlyArray<Provider> = [
  // AWS: s3.amazonaws.com, s3.REGION, s3-REGION, dualstack, FIPS, China.
  provider(String.raw`${BUCKET}s3(?:-fips)?(?:\.dualstack)?(?:[.-](?<region>${REGION}))?\.amazonaws\.com(?:\.cn)?`, {
    pathStyle: false
  }),
  // The website endpoint of a bucket is read-only.
  provider(String.raw`${BUCKET}s3-website[.-](?<region>${REGION})\.amazonaws\.com(?:\.cn)?`, {
    pathStyle: false,
    api: (region, host) => `s3.${region}.amazonaws.com${host.endsWith(".cn") ? ".cn" : ""}`
  }),
  provider(String.raw`${BUCKET}s3-accelerate(?:\.dualstack)?\.amazonaws\.com`, { pathStyle: false }),
  provider(String.raw`(?:(?:bucket|accesspoint)\.)?vpce-[^.]+\.s3\.(?<region>${REGION})\.vpce\.amazonaws\.com`, {
    pathStyle: true,
    api: (_, host) => host
  }),
  // DigitalOcean; its CDN is read-only.
  provider(String.raw`${BUCKET}(?<region>[a-z]{3}\d)(?:\.cdn)?\.digitaloceanspaces\.com`, {
    pathStyle: true,
    api: (region) => `${region}.digitaloceanspaces.com`
  }),
  provider(String.raw`${BUCKET}s3\.(?<region>[a-z0-9-]+)\.backblazeb2\.com`, others),
  provider(String.raw`${BUCKET}s3(?:\.(?<region>[a-z0-9-]+))?\.wasabisys\.com`, others),
  // Cloudflare: the host starts with the account, not with the bucket.
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

/** Services that follow AWS's naming: `s3.us-south-1.example.com`. */
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
 * Parses an address. Fails with the rest of a sentence that says what is wrong with it. `named` is the configured bucket, if any; it takes precedence over
 * one in the address. The default scheme is `https`.
 */
export const parse = (address: string, named: string | undefined): Result.Result<StorageUrl, string> => {
  const text = address.trim()
  const full = text.includes("://") ? text : `https://${text}`
  if (!URL.canParse(full)) return Result.fail("is not an http or https address")
  const url = new URL(full)
  if (url.protocol !== "http:" && url.protocol !== "https:") return Result.fail("is not an http or https address")
  // In this case the address is not shown.
  if (url.username !== "" || url.password !== "") {
    return Result.fail("contains a user name or password, which is not allowed there")
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
    // These hosts have no base paths, so the path starts with the bucket, unless the host contains it.
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
