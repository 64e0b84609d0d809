/**
 * The secrets of keys: how they are made, what is kept of them, and what a presented one is worth.
 *
 * ```
 *   stint_0123456789abcdef_Vm9y...         43 characters, 256 random bits
 *         `--- id -------´ `- random --´   the id leads to the one record to compare with, however many keys there are
 * ```
 *
 * Kept is the SHA-256 of the whole text. A slow hash would add nothing: it protects secrets that can be guessed, and nobody guesses 256
 * random bits (docs/decisions/0009-keys-at-rest.md).
 */
import { KeyId } from "@stint/contract/AccessKey"
import type { KeyRecord } from "@stint/store/KeyStore"
import { hash, randomBytes, timingSafeEqual } from "node:crypto"

/** A secret that was just made. */
export interface NewSecret {
  readonly secret: string
  /** What people may see of it. */
  readonly prefix: string
  /** What is kept of it. */
  readonly digest: string
}

/** The digest that keys are compared by. */
export const digestOf = (text: string): Buffer => hash("sha256", text, "buffer")

/** A new id. */
export const newId = (): KeyId => KeyId.make(randomBytes(8).toString("hex"))

/** A new secret of a key. */
export const mint = (id: KeyId): NewSecret => {
  const secret = `stint_${id}_${randomBytes(32).toString("base64url")}`
  return { secret, prefix: secret.slice(0, `stint_${id}_`.length + 4), digest: digestOf(secret).toString("hex") }
}

const SHAPE = /^stint_([0-9a-f]{16})_[A-Za-z0-9_-]{43}$/

/** The id in a text that has the shape of a secret. */
export const idIn = (text: string): string | undefined => SHAPE.exec(text)?.[1]

/** Compares in constant time. */
const isDigest = (presented: Buffer, kept: string): boolean => {
  const other = Buffer.from(kept, "hex")
  return other.length === presented.length && timingSafeEqual(presented, other)
}

/** What a presented secret is worth. */
export type SecretStatus =
  | { readonly _tag: "Active" }
  /** It was the key's secret, or still is, but it does not open anything any more. `at`: since when. */
  | { readonly _tag: "Ended"; readonly why: "revoked" | "expired" | "rotated"; readonly at: number }
  /** It never was a secret of this key. */
  | { readonly _tag: "Foreign" }

const isOver = (time: number | undefined, now: number): time is number => time !== undefined && time <= now

/** What the secret with this digest is worth to a key at a time. */
export const secretStatus = (key: KeyRecord, digest: Buffer, now: number): SecretStatus => {
  const isPresent = isDigest(digest, key.digest)
  const previous = isPresent ? undefined : key.previous.find((one) => isDigest(digest, one.digest))
  if (!isPresent && previous === undefined) return { _tag: "Foreign" }
  if (isOver(key.revokedAt, now)) return { _tag: "Ended", why: "revoked", at: key.revokedAt }
  if (isOver(key.expiresAt, now)) return { _tag: "Ended", why: "expired", at: key.expiresAt }
  if (isOver(previous?.until, now)) return { _tag: "Ended", why: "rotated", at: previous.until }
  return { _tag: "Active" }
}

/** How many secrets are kept after their end, to tell whoever still uses one what happened. */
const MAX_ENDED_SECRETS = 3

/** A key after a rotation: every secret from before ends after `graceMs` at the latest. */
export const rotated = (key: KeyRecord, minted: NewSecret, graceMs: number, now: number): KeyRecord => {
  const before = [{ digest: key.digest, until: now + graceMs }, ...key.previous].map(({ digest, until }) => ({
    digest,
    until: Math.min(until, now + graceMs)
  }))
  const valid = before.filter(({ until }) => until > now)
  const ended = before.filter(({ until }) => until <= now)
  return {
    ...key,
    digest: minted.digest,
    prefix: minted.prefix,
    rotatedAt: now,
    previous: [...valid, ...ended.slice(0, MAX_ENDED_SECRETS)]
  }
}
