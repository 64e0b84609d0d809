/**
 * The control API for backups.
 */
import { Api } from "@stint/contract/Api"
import { Conflict, problemMembers, Unavailable } from "@stint/contract/Problem"
import * as Effect from "effect/Effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Stream from "effect/Stream"
import { type BackupError, Backups } from "./Backups.ts"

const problemOf = ({ message, reason }: BackupError) => {
  switch (reason) {
    case "in-memory":
      return new Conflict(problemMembers(message, "Back up a platform that `stint serve` runs."))
    case "database":
      return new Conflict(problemMembers(message, "Back up the database with its own tools: pg_dump, or a base backup."))
    case "running":
      return new Conflict(problemMembers(message, "Wait for its end, and send the request again."))
    case "failed":
      return new Unavailable(
        problemMembers(message, "The platform continues without a backup. Remove the cause, and send the request again.")
      )
  }
}

export const layer = HttpApiBuilder.group(
  Api,
  "backup",
  Effect.fnUntraced(function*(handlers) {
    const { open } = yield* Backups
    return handlers.handleRaw(
      "backup",
      Effect.fnUntraced(function*() {
        const archive = yield* Effect.mapError(open, problemOf)
        return HttpServerResponse.stream(
          // The response ends without its last bytes, so the client notices. The log has the reason.
          Stream.tapError(archive, ({ message }) => Effect.logError(`A backup was not completed: ${message}`)),
          {
            contentType: "application/x-tar",
            headers: { "cache-control": "no-store", "content-disposition": "attachment; filename=\"stint-backup.tar\"" }
          }
        )
      })
    )
  })
)
