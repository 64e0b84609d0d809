/**
 * Webhook signatures (Standard Webhooks 1.0): HMAC-SHA256 of `id.timestamp.body`.
 *
 * ```
 *   webhook-id:         the same for every attempt
 *   webhook-timestamp:  the time of this attempt, seconds since 1970
 *   webhook-signature:  v1,<base64> [v1,<base64> ...]     one per valid secret, separated by spaces
 * ```
 */
import { createHmac, randomBytes } from "node:crypto"

/** The prefix of every secret. */
const SECRET_PREFIX = "whsec_"

/** The length of new secrets. The standard requires 24 to 64 bytes. */
const SECRET_BYTES = 32

/** Makes a secret: `whsec_` and 32 random bytes in base64. */
export const newSecret = (): string => SECRET_PREFIX + randomBytes(SECRET_BYTES).toString("base64")

/** The key of a secret, with or without its prefix. */
const keyOf = (secret: string): Buffer =>
  Buffer.from(secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : secret, "base64")

/** The signature for one attempt: `v1,<base64>`. `timestamp` is in seconds since 1970; `body` is signed exactly as it is sent. */
export const sign = (secret: string, id: string, timestamp: number, body: string | Uint8Array): string =>
  `v1,${createHmac("sha256", keyOf(secret)).update(`${id}.${timestamp}.`).update(body).digest("base64")}`

/** The headers for one attempt, with one signature per secret. */
export const headersOf = (
  secrets: ReadonlyArray<string>,
  id: string,
  timestamp: number,
  body: string | Uint8Array
): { readonly [name: string]: string } => ({
  "webhook-id": id,
  "webhook-timestamp": String(timestamp),
  "webhook-signature": secrets.map((secret) => sign(secret, id, timestamp, body)).join(" ")
})
