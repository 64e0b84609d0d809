/**
 * Backups of the platform. The program that composes the platform implements them, because only it knows the database, the payload folder and
 * the keys.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"

/** Why there is no backup. */
export class BackupError extends Schema.TaggedError<BackupError>()("BackupError", {
  /**
   * `in-memory`: there is nothing to back up. `database`: the jobs are in a database that has its own backup tools. `running`: another backup
   * is in progress. `failed`: see the message.
   */
  reason: Schema.Literals(["in-memory", "database", "running", "failed"]),
  message: Schema.String
}) {}

/** The implementation. Default: the platform stores its jobs in memory. */
export const Backups = Context.Reference<{
  /**
   * Copies the database, and returns the archive. The copy and the archive last as long as the scope. A failure of the stream must end the
   * response without its last bytes.
   */
  readonly open: Effect.Effect<Stream.Stream<Uint8Array, BackupError>, BackupError, Scope.Scope>
}>("@stint/server/Backups", {
  defaultValue: () => ({
    open: Effect.suspend(() =>
      new BackupError({ reason: "in-memory", message: "This platform stores its jobs in memory: there is nothing to back up." })
    )
  })
})
