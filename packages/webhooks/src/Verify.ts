/**
 * Verifies received webhooks.
 *
 * Depends only on `node:crypto` and works with every sender of Standard Webhooks. Receivers must also deduplicate webhooks by id, because
 * webhooks are delivered at least once.
 */
import { timingSafeEqual } from "node:crypto"
import { sign } from "./Signature.ts"

/** The headers of a request, in the form of Fetch or `node:http`. Names are case-insensitive. */
export type ReceivedHeaders =
  | { readonly get: (name: string) => string | null }
  | { readonly [name: string]: string | ReadonlyArray<string> | undefined }

/** How to verify a webhook. */
export interface Options {
  /**
   * The maximum difference between the webhook's timestamp and now. Milliseconds. Default: 5 minutes, as in the standard. With a longer
   * tolerance, recorded webhooks can be replayed for longer.
   */
  readonly toleranceMs?: number
  /** Milliseconds since 1970. Default: now. */
  readonly now?: number
}

/** A verified webhook. */
export interface Verified {
  /** The same for every attempt of a delivery. */
  readonly id: string
  /** When the sender made this attempt. Milliseconds since 1970. */
  readonly sentAt: number
}

/** The webhook cannot be trusted. Respond with 400 or 401 and ignore its content. */
export class InvalidWebhook extends Error {
  override readonly name = "InvalidWebhook"
  readonly reason: "header missing" | "timestamp" | "signature"
  constructor(reason: InvalidWebhook["reason"], message: string) {
    super(message)
    this.reason = reason
  }
}

const TOLERANCE_MILLIS = 5 * 60_000

const hasGet = (headers: ReceivedHeaders): headers is { readonly get: (name: string) => string | null } =>
  typeof headers["get"] === "function"

const headerOf = (headers: ReceivedHeaders, name: string): string => {
  const found = hasGet(headers)
    ? headers.get(name)
    : Object.entries(headers).find(([one]) => one.toLowerCase() === name)?.[1]
  const text = typeof found === "string" ? found : found?.[0]
  if (text === undefined || text === "") {
    throw new InvalidWebhook("header missing", `The header ${name} is missing: this is not a signed webhook.`)
  }
  return text
}

const isSame = (left: string, right: string): boolean => {
  const [a, b] = [Buffer.from(left), Buffer.from(right)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/**
 * Verifies a webhook. Throws `InvalidWebhook` if it was not signed with the secret (or, if there are several, with any of them), or if its
 * timestamp differs from now by more than the tolerance.
 *
 * `body` is the raw body: if JSON is parsed and serialized again, its bytes may differ, and then the signature no longer matches.
 */
export const verify = (
  secret: string | ReadonlyArray<string>,
  headers: ReceivedHeaders,
  body: string | Uint8Array,
  { now = Date.now(), toleranceMs = TOLERANCE_MILLIS }: Options = {}
): Verified => {
  const id = headerOf(headers, "webhook-id")
  const timestamp = headerOf(headers, "webhook-timestamp")
  const given = headerOf(headers, "webhook-signature").split(" ")
  const sentAt = /^\d{1,12}$/.test(timestamp) ? Number(timestamp) * 1000 : Number.NaN
  if (!(Math.abs(now - sentAt) <= toleranceMs)) {
    throw new InvalidWebhook(
      "timestamp",
      `The header webhook-timestamp is ${timestamp}, more than ${toleranceMs / 1000} s away from now, ` +
        `${Math.floor(now / 1000)}. Check this machine's clock; if it is right, this webhook is a replay.`
    )
  }
  const expected = (typeof secret === "string" ? [secret] : secret).map((one) => sign(one, id, Number(timestamp), body))
  if (!expected.some((one) => given.some((other) => isSame(one, other)))) {
    throw new InvalidWebhook(
      "signature",
      "The signature does not match: the secret is wrong, or the body was changed. Verify the raw body, before it is parsed."
    )
  }
  return { id, sentAt }
}
