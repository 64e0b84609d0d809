/**
 * For receivers: whether a webhook is from who it says, and from now.
 *
 * Depends on nothing but `node:crypto`, and works for every sender of Standard Webhooks. A receiver also keeps the ids that it has seen:
 * webhooks are delivered at least once.
 */
import { timingSafeEqual } from "node:crypto"
import { sign } from "./Signature.ts"

/** The headers of a request: those of Fetch, or those of `node:http`. Names in any case. */
export type ReceivedHeaders =
  | { readonly get: (name: string) => string | null }
  | { readonly [name: string]: string | ReadonlyArray<string> | undefined }

/** How a webhook is looked at. */
export interface Options {
  /**
   * How far the sender's clock may be away. Milliseconds. Default: 5 minutes, the standard's. Longer lets a webhook that somebody recorded
   * be replayed for longer.
   */
  readonly toleranceMs?: number
  /** Milliseconds since 1970. Default: now. */
  readonly now?: number
}

/** A webhook that was verified. */
export interface Verified {
  /** The same for every attempt of a delivery. */
  readonly id: string
  /** When it was sent. Milliseconds since 1970. */
  readonly sentAt: number
}

/** The webhook is not to be trusted. Answer 400 or 401, and do nothing of what it says. */
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
    throw new InvalidWebhook("header missing", `The header ${name} is missing: this is no signed webhook.`)
  }
  return text
}

const isSame = (left: string, right: string): boolean => {
  const [a, b] = [Buffer.from(left), Buffer.from(right)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/**
 * Verifies a webhook. Throws `InvalidWebhook` where it was not signed with the secret (one of them, where there are several), or not within
 * the tolerance of now.
 *
 * `body` is the body as it came, before any parsing: JSON that was parsed and printed again has other bytes and another signature.
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
        `${Math.floor(now / 1000)}. Look at this machine's clock; if it is right, somebody repeats an old webhook.`
    )
  }
  const expected = (typeof secret === "string" ? [secret] : secret).map((one) => sign(one, id, Number(timestamp), body))
  if (!expected.some((one) => given.some((other) => isSame(one, other)))) {
    throw new InvalidWebhook(
      "signature",
      "The signature does not fit: another secret, or a body that is not what was sent. Verify the raw body, before it is parsed."
    )
  }
  return { id, sentAt }
}
