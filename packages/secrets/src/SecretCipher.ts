/**
 * Encrypts values with AES-256-GCM. The name of the secret is authenticated with the value, so a value moved to another name in the database
 * cannot be decrypted.
 *
 * ```
 *   base64( nonce: 12 random bytes | encrypted value | tag: 16 bytes )
 * ```
 */
import * as Redacted from "effect/Redacted"
import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto"
import type { EncryptionKey } from "./SecretsKey.ts"

const ALGORITHM = "aes-256-gcm"
const NONCE_BYTES = 12
const TAG_BYTES = 16

/** Encrypts the value of a secret. The same value never gives the same text twice. */
export const seal = (key: Pick<EncryptionKey, "bytes">, name: string, value: string): string => {
  const nonce = randomBytes(NONCE_BYTES)
  const cipher = createCipheriv(ALGORITHM, Redacted.value(key.bytes), nonce, { authTagLength: TAG_BYTES })
  cipher.setAAD(Buffer.from(name, "utf8"))
  const sealed = Buffer.concat([cipher.update(value, "utf8"), cipher.final()])
  return Buffer.concat([nonce, sealed, cipher.getAuthTag()]).toString("base64")
}

/** The value; undefined if the key or the name differs from the one used to encrypt it, or if the text was changed. */
export const open = (key: Pick<EncryptionKey, "bytes">, name: string, sealed: string): string | undefined => {
  const bytes = Buffer.from(sealed, "base64")
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined
  const decipher = createDecipheriv(ALGORITHM, Redacted.value(key.bytes), bytes.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES
  })
  decipher.setAAD(Buffer.from(name, "utf8"))
  decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
  try {
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]).toString("utf8")
  } catch {
    // The only error of a decipher with valid parameters: the tag does not match.
    return undefined
  }
}
