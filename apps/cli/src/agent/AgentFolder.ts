/**
 * The data folder of an agent. Its database contains the identity of the agent, so that the platform recognizes it after a restart, and whether an
 * operator has drained the machine. Its lock keeps a second agent out of the folder, because both would take over the same workers.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { randomUUID } from "node:crypto"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { CliFailure } from "../CliFailure.ts"
import * as DataFolder from "../config/DataFolder.ts"

export interface AgentFolder {
  readonly path: string
  readonly instance: string
  readonly isDrained: boolean
  readonly storeDrained: (isDrained: boolean) => Effect.Effect<void>
}

const TABLE = "CREATE TABLE IF NOT EXISTS agent (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT"
const READ = "SELECT value FROM agent WHERE name = ?"
const WRITE = "INSERT INTO agent (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"

const textOf = (row: Record<string, unknown> | undefined): string | undefined =>
  typeof row?.["value"] === "string" ? row["value"] : undefined

const isLocked = (cause: unknown): boolean => cause instanceof Error && /locked/.test(cause.message)

/** Opens and locks the folder until the scope closes. The lock ends with the process, however it ends. */
export const open = Effect.fn("AgentFolder.open")(
  function*(dataDir: string): Effect.fn.Return<AgentFolder, CliFailure, Scope.Scope> {
    const path = yield* DataFolder.open(dataDir)
    const database = yield* Effect.acquireRelease(
      Effect.try({
        try: () => {
          const opened = new DatabaseSync(join(path, "stint-agent.db"))
          opened.exec("PRAGMA locking_mode = EXCLUSIVE")
          opened.exec("BEGIN IMMEDIATE")
          opened.exec(TABLE)
          opened.exec("COMMIT")
          return opened
        },
        catch: (cause) =>
          isLocked(cause)
            ? new CliFailure({
              message: `Another agent uses the data folder ${path}.`,
              hint:
                "Stop it, or give this one a folder of its own: STINT_DATA_DIR=/var/lib/stint-agent-2 stint agent ... --name NAME"
            })
            : new CliFailure({
              message: `The data folder ${path} cannot be used: ${cause instanceof Error ? cause.message : String(cause)}`,
              hint: "Make it readable and writable for this user, or set STINT_DATA_DIR to another folder."
            })
      }),
      (opened) => Effect.sync(() => opened.close())
    )
    const read = (name: string) => textOf(database.prepare(READ).get(name))
    const write = (name: string, value: string) => void database.prepare(WRITE).run(name, value)
    const instance = read("instance") ?? randomUUID()
    write("instance", instance)
    return {
      path,
      instance,
      isDrained: read("drained") === "true",
      storeDrained: (isDrained) =>
        Effect.catch(
          Effect.try(() => write("drained", String(isDrained))),
          (error) =>
            Effect.logWarning("The drain state of this machine cannot be stored, so it is lost when the agent restarts.", error)
        )
    }
  }
)
