/**
 * Credentials for image registries, from a file in the form of Docker's `config.json`, which `docker login` and `podman login` write.
 *
 * ```json
 * { "auths": { "registry.example.com": { "auth": "base64 of USER:PASSWORD" } } }
 * ```
 *
 * Credential helpers (`credsStore`, `credHelpers`) are programs of the user who logged in. The platform does not run them.
 */
import { PoolError, PoolUnavailable } from "@stint/pool/PoolError"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { readFile } from "node:fs/promises"
import { homedir } from "node:os"
import { join } from "node:path"
import process from "node:process"

/** The registry of images whose name contains none. */
const DEFAULT_REGISTRY = "docker.io"

/** The name under which `docker login` stores the credentials of {@link DEFAULT_REGISTRY}. */
const DEFAULT_REGISTRY_KEY = "https://index.docker.io/v1/"

const Entry = Schema.Struct({
  auth: Schema.optionalKey(Schema.String),
  username: Schema.optionalKey(Schema.String),
  password: Schema.optionalKey(Schema.String),
  identitytoken: Schema.optionalKey(Schema.String)
})

const decodeFile = Schema.decodeUnknownEffect(
  Schema.fromJsonString(Schema.Struct({ auths: Schema.optionalKey(Schema.Record(Schema.String, Entry)) }))
)

/** The files in which `docker login` and `podman login` store credentials. */
export const usualFiles = (): ReadonlyArray<string> => {
  const runtime = process.env["XDG_RUNTIME_DIR"]
  return [
    join(homedir(), ".docker/config.json"),
    ...(runtime === undefined ? [] : [join(runtime, "containers/auth.json")]),
    join(homedir(), ".config/containers/auth.json")
  ]
}

/** The registry in an image's name: `registry.example.com:5000` in `registry.example.com:5000/team/llm:1`. */
export const registryOf = (image: string): string => {
  const [first = "", ...rest] = image.split("/")
  return rest.length > 0 && (/[.:]/.test(first) || first === "localhost") ? first : DEFAULT_REGISTRY
}

/** Engines decode the URL-safe alphabet with padding. Podman rejects a value without padding. */
export const encodeHeader = (credentials: object): string =>
  Buffer.from(JSON.stringify(credentials)).toString("base64").replaceAll("+", "-").replaceAll("/", "_")

const hostOf = (key: string): string => key.replace(/^https?:\/\//, "").split("/")[0] ?? key

const unreadable = (file: string, problem: string) =>
  new PoolError({
    reason: new PoolUnavailable({
      problem: `the credentials of image registries in ${file} cannot be read (${problem})`,
      hint: "Write it with docker login or podman login, or correct STINT_ENGINE_AUTH."
    })
  })

/**
 * The value of the header `X-Registry-Auth` for an image; undefined when the file has no credentials for its registry. Each call
 * reads the first of `files` that exists, so that a changed password needs no restart.
 */
export const headerFor = Effect.fnUntraced(function*(image: string, files: ReadonlyArray<string>) {
  const registry = registryOf(image)
  for (const file of files) {
    const text = yield* Effect.tryPromise({
      try: () =>
        readFile(file, "utf8").catch((error: unknown) => {
          if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined
          throw error
        }),
      catch: (cause) => unreadable(file, cause instanceof Error ? cause.message : String(cause))
    })
    if (text === undefined) continue
    const { auths = {} } = yield* Effect.mapError(
      decodeFile(text),
      () => unreadable(file, "it is not in the form of Docker's config.json")
    )
    const entry = auths[registry] ?? Object.entries(auths).find(([key]) => hostOf(key) === registry)?.[1] ??
      (registry === DEFAULT_REGISTRY ? auths[DEFAULT_REGISTRY_KEY] : undefined)
    if (entry === undefined) return undefined
    const decoded = entry.auth === undefined ? "" : Buffer.from(entry.auth, "base64").toString()
    const at = decoded.indexOf(":")
    const credentials = {
      username: entry.username ?? decoded.slice(0, Math.max(at, 0)),
      password: entry.password ?? decoded.slice(at + 1),
      serveraddress: registry,
      ...(entry.identitytoken === undefined ? {} : { identitytoken: entry.identitytoken })
    }
    return encodeHeader(credentials)
  }
  return undefined
})
