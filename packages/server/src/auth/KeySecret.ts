/**
 * Secrets of access keys: creates them, derives the part that is stored, and checks presented secrets.
 *
 * ```
 *   stint_0123456789abcdef_Vm9y...         43 characters, 256 random bits
 *         `--- id -------´ `- random --´   the id finds the record to compare with, in constant time however many keys exist
 * ```
 *
 * The store holds the SHA-256 of the whole text. A slow hash would not add any protection: slow hashes protect secrets that can be
 * guessed, and 256 random bits cannot be guessed (docs/decisions/0009-keys-at-rest.md).
 */
import { KeyId } from "@stint/contract/AccessKey"
import type { KeyRecord } from "@stint/store/KeyStore"
import { hash, randomBytes, timingSafeEqual } from "node:crypto"

/** A newly created secret. */
export interface NewSecret {
  readonly secret: string
  /** The part that may be displayed. */
  readonly prefix: string
  /** The part that is stored. */
  readonly digest: string
}

/** The digest by which keys are compared. */
export const digestOf = (text: string): Buffer => hash("sha256", text, "buffer")

/** A new id. */
export const newId = (): KeyId => KeyId.make(randomBytes(8).toString("hex"))

/** A new secret for a key. */
export const mint = (id: KeyId): NewSecret => {
  const secret = `stint_${id}_${randomBytes(32).toString("base64url")}`
  return { secret, prefix: secret.slice(0, `stint_${id}_`.length + 4), digest: digestOf(secret).toString("hex") }
}

const SHAPE = /^stint_([0-9a-f]{16})_[A-Za-z0-9_-]{43}$/

/** The key id in a text that has the format of a secret; undefined for any other text. */
export const idIn = (text: string): string | undefined => SHAPE.exec(text)?.[1]

/** Compares in constant time. */
const isDigest = (presented: Buffer, stored: string): boolean => {
  const other = Buffer.from(stored, "hex")
  return other.length === presented.length && timingSafeEqual(presented, other)
}

/** The result of checking a presented secret. */
export type SecretStatus =
  | { readonly _tag: "Active" }
  /** A secret of this key that no longer works. `at`: when it stopped working. */
  | { readonly _tag: "Inactive"; readonly why: "revoked" | "expired" | "rotated"; readonly at: number }
  /** Was never a secret of this key. */
  | { readonly _tag: "NoMatch" }

const isOver = (time: number | undefined, now: number): time is number => time !== undefined && time <= now

/** Checks the secret with this digest against a key at a given time. */
export const secretStatus = (key: KeyRecord, digest: Buffer, now: number): SecretStatus => {
  const isPresent = isDigest(digest, key.digest)
  const previous = isPresent ? undefined : key.previous.find((one) => isDigest(digest, one.digest))
  if (!isPresent && previous === undefined) return { _tag: "NoMatch" }
  if (isOver(key.revokedAt, now)) return { _tag: "Inactive", why: "revoked", at: key.revokedAt }
  if (isOver(key.expiresAt, now)) return { _tag: "Inactive", why: "expired", at: key.expiresAt }
  if (isOver(previous?.until, now)) return { _tag: "Inactive", why: "rotated", at: previous.until }
  return { _tag: "Active" }
}

/** Number of expired secrets to keep per key, so that callers who still use an expired secret get a specific error. */
const MAX_ENDED_SECRETS = 3

/** The key after a rotation: all earlier secrets expire after `graceMs` or sooner. */
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
