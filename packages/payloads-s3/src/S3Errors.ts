/**
 * What a storage's answer means, in words for whoever has to mend it.
 *
 * The client's errors carry the id of the key, the request as it was signed and the raw response. Nothing of an error is passed on but its code and
 * its sentence, and that without anything that is part of the key.
 */
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"

/** The most characters of what a storage said. */
const MAX_TEXT = 300

/** Who is asked, to know what must not be shown. */
interface Asked {
  readonly accessKeyId: string
  readonly secretAccessKey: Redacted.Redacted
}

const at = (value: unknown, key: string): unknown => Predicate.hasProperty(value, key) ? value[key] : undefined

const textAt = (value: unknown, key: string): string | undefined => {
  const text = at(value, key)
  return typeof text === "string" && text !== "" ? text : undefined
}

const codeOf = (error: unknown): string => textAt(error, "Code") ?? textAt(error, "code") ?? textAt(error, "name") ?? "Error"

const statusOf = (error: unknown): number | undefined => {
  const status = at(at(error, "$metadata"), "httpStatusCode") ?? at(at(error, "$response"), "statusCode")
  return typeof status === "number" ? status : undefined
}

/** The storage works, and has no such object. A bucket that is not there is another matter. */
export const isMissing = (error: unknown): boolean => codeOf(error) === "NoSuchKey"

const HINTS: Readonly<Record<string, string>> = {
  NoSuchBucket: "create it, or correct its name",
  InvalidAccessKeyId: "check the id of the key",
  SignatureDoesNotMatch: "check the secret of the key, and the region",
  AccessDenied: "the key has to be allowed to list the bucket and to put, get and delete its objects",
  RequestTimeTooSkewed: "set this machine's clock: requests are signed with the time",
  PermanentRedirect: "the bucket is in another region",
  AuthorizationHeaderMalformed: "the bucket is in another region",
  TimeoutError: "it was silent for too long"
}

/** What the client threw, in words. */
export const problemOf = (error: unknown, { accessKeyId, secretAccessKey }: Asked): string => {
  const secrets = [Redacted.value(secretAccessKey), accessKeyId].filter((one) => one.length > 2)
  const clean = (text: string) =>
    secrets.reduce((left, secret) => left.replaceAll(secret, "***"), text).replaceAll(/\s+/g, " ").slice(0, MAX_TEXT)
      .replace(/[.\s]+$/, "")
  const code = clean(codeOf(error))
  const text = clean(textAt(error, "message") ?? "")
  const status = statusOf(error)
  const hint = HINTS[code]
  const said = text === "" || text === code ? code : `${code}: ${text}`
  return `${status === undefined ? "" : `${status} `}${said}${hint === undefined ? "" : ` (${hint})`}`
}
