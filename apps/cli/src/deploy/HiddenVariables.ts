/**
 * Hides the values of variables that are probably secrets, because the output of a deployment ends up in terminals and in the logs of CI jobs.
 */
import type { WorkerVariables } from "@stint/contract/Endpoint"
import type { ReleasePreview } from "@stint/contract/Release"
import * as Predicate from "effect/Predicate"

/** The placeholder for a hidden value. */
export const MASK = "********"

/** Words in the names of variables that contain secrets: `API_KEY`, `githubToken`, `DB_PASS`. */
const SECRET_NAME =
  /(^|[^a-z])(auth|credentials?|key|keys|pass|passphrase|password|passwd|pat|private|pwd|secrets?|signature|tokens?|dsn|cookie)($|[^a-z])/i

/** Splits `apiKey` into the same words as `api_Key`. */
const withUnderscores = (name: string): string => name.replaceAll(/([a-z0-9])([A-Z])/g, "$1_$2")

/** Words without a boundary: `APIKEY`, `PGPASSWORD`, `AUTHTOKEN`. */
const SECRET_ENDING = /(apikey|accesskey|secretkey|password|passwd|secret|token|credentials?)$/i

/** A URL with a password: `postgres://ada:secret@db/orders`. */
const URL_WITH_PASSWORD = /:\/\/[^/\s:@]*:[^/\s@]+@/

/** Whether the value of this variable is hidden. */
export const isSecret = (name: string, value: unknown): boolean =>
  SECRET_NAME.test(withUnderscores(name)) || SECRET_ENDING.test(name) ||
  (Predicate.isString(value) && URL_WITH_PASSWORD.test(value))

const ENV = "env."

/** The end of the path of a reference to a stored secret. A reference contains only the secret's name. */
const REFERENCE = ".secret"

type SettingChange = ReleasePreview["settings"][number]

/** The change with hidden values. A variable is hidden before and after when one of the two is a secret. */
export const maskChange = (change: SettingChange): SettingChange => {
  const { after, before, path } = change
  if (!path.startsWith(ENV) || path.endsWith(REFERENCE)) return change
  const name = path.slice(ENV.length)
  if (!isSecret(name, before) && !isSecret(name, after)) return change
  return { path, ...(before === undefined ? {} : { before: MASK }), ...(after === undefined ? {} : { after: MASK }) }
}

/** The settings with the values of variables hidden. References to stored secrets are shown. */
export const maskEnv = <A extends { readonly env: WorkerVariables }>(settings: A): A => ({
  ...settings,
  env: Object.fromEntries(
    Object.entries(settings.env).map(([name, value]) => [name, Predicate.isString(value) && isSecret(name, value) ? MASK : value])
  )
})
