/**
 * The secret that worker keys are derived from. It is stored in the data folder, because worker keys must stay valid across restarts: workers that
 * outlive the platform deliver their results after its restart, and workers on other machines keep their variables. The key of the console's sessions
 * is derived from it, too.
 *
 * A process that reads it can act as a worker of every endpoint, but cannot call any other API (docs/decisions/0004-worker-keys-are-derived.md). It could
 * decrypt a cookie of the console, if it had one.
 */
import type { EncryptionKey } from "@stint/secrets/SecretsKey"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import { createHmac, randomBytes } from "node:crypto"
import { CliFailure } from "../CliFailure.ts"
import * as PrivateFile from "./PrivateFile.ts"

/** A new secret of 256 random bits. */
export const generate: Effect.Effect<Redacted.Redacted> = Effect.sync(() => Redacted.make(randomBytes(32).toString("base64url")))

/**
 * The worker secret of a node that shares its database with others. It is derived from the operator's key for secrets, so that every node accepts the
 * worker keys and sessions that another node has made. `keys`: the operator's keys; the oldest one is used, because it stays during a rotation.
 */
export const shared = (keys: ReadonlyArray<EncryptionKey>): Redacted.Redacted | undefined => {
  const oldest = keys.at(-1)
  return oldest === undefined
    ? undefined
    : Redacted.make(createHmac("sha256", Redacted.value(oldest.bytes)).update("stint worker keys").digest("base64url"))
}

/** Reads the secret. Generates and stores one when there is none. */
export const obtain = Effect.fn("WorkerSecret.obtain")(function*(dataDir: string): Effect.fn.Return<
  Redacted.Redacted,
  CliFailure,
  Path.Path
> {
  const file = (yield* Path.Path).join(dataDir, "worker-secret")
  return yield* Effect.gen(function*() {
    const known = yield* PrivateFile.read(file)
    if (Option.isSome(known)) return Redacted.make(known.value)
    const secret = yield* generate
    yield* PrivateFile.write(file, `${Redacted.value(secret)}\n`)
    return secret
  }).pipe(
    Effect.mapError((cause) =>
      new CliFailure({
        message: `The secret of the worker keys cannot be read or stored in ${file}: ${cause.message}`,
        hint: "Let this user read and write the data folder and its files, or set STINT_DATA_DIR to another folder."
      })
    )
  )
})
