/**
 * The stores of a platform with a PostgreSQL database. Their module and the driver `pg` are loaded only for such a platform. `pg` is an optional peer
 * dependency, because most platforms use the embedded database.
 */
import { failed } from "@stint/builder/BuildError"
import { BackupError, Backups } from "@stint/server/Backups"
import type { PostgresOpenError } from "@stint/store-postgres"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import manifest from "../../package.json" with { type: "json" }
import { CliFailure } from "../CliFailure.ts"
import type { Stores } from "./Stores.ts"

/** The module of the stores, with the driver. */
export const load = Effect.tryPromise({
  try: () => import("@stint/store-postgres"),
  catch: (cause) =>
    new CliFailure({
      message: `The PostgreSQL driver cannot be loaded: ${cause instanceof Error ? cause.message : String(cause)}`,
      hint: "Install it beside Stint: npm install pg@8 (with a global Stint: npm install --global pg@8)."
    })
})

/** Refuses `stint backup`, which copies the embedded database. */
const layerBackups = Layer.succeed(Backups, {
  open: Effect.suspend(() =>
    new BackupError({
      reason: "database",
      message: "This platform stores its jobs in PostgreSQL, which `stint backup` does not copy."
    })
  )
})

/** Why there are no builds: a build runs on one node, and the others could neither cancel it nor take it over. */
export const noBuilds = failed(
  "A platform with a PostgreSQL database does not build endpoints yet.",
  "Build the image elsewhere, and deploy it: stint endpoints update ENDPOINT --image IMAGE (stint endpoints create for a new one)"
)

/** The stores. */
export const layer = (
  url: Redacted.Redacted
): Layer.Layer<Stores, PostgresOpenError.PostgresOpenError | StoreError | CliFailure> =>
  Layer.merge(layerBackups, Layer.unwrap(Effect.map(load, (Postgres) => Postgres.layer({ url, version: manifest.version }))))
