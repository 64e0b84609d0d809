/**
 * Brings the tables of a database to the version of this program, without a node: before nodes of this version start, or as a user with more rights
 * than the nodes have. A node that finds the tables up to date changes none.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { connect } from "./Connection.ts"
import * as Migrations from "./Migrations.ts"
import { migrateTables } from "./OpenTables.ts"
import { nameOf, openError, type Options } from "./PostgresDatabase.ts"
import type { PostgresOpenError } from "./PostgresOpenError.ts"

/** How long one statement may take. Nodes have 10 s, and an index on a large table takes longer. Milliseconds. */
export const DEADLINE = 600_000

/** Returns the address without the password, and the version of the tables. */
export const migrate = (
  { deadlineMs = DEADLINE, password, url }: Options
): Effect.Effect<{ readonly database: string; readonly version: number }, PostgresOpenError> => {
  const address = Redacted.value(url)
  const database = nameOf(address)
  const options = {
    url: address,
    ...(password === undefined ? {} : { password: Redacted.value(password) }),
    deadlineMs,
    // Works even behind a pooler without support for prepared statements.
    prepare: false
  }
  return Effect.tryPromise({
    try: async () => {
      const connection = await connect(options)
      try {
        await migrateTables(connection, database)
      } finally {
        await connection.end()
      }
      return { database, version: Migrations.LATEST }
    },
    catch: (cause) => openError(database, cause)
  })
}
