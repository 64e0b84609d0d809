/**
 * Detects a connection pooler that gives each transaction a different server connection, such as PgBouncer in transaction mode. Behind it, prepared
 * statements, session settings and notifications are lost.
 *
 * A pooler announces its own process id at login, so one statement shows whether there is a pooler. In session mode, a client keeps its server
 * connection. In transaction mode, another client that begins a transaction takes over the connection.
 */
import type { Connection } from "./Connection.ts"

/** What is between this program and the server. */
export type Pooling = "none" | "session" | "transaction"

/** What to do about a pooler in transaction mode. */
export const ADVICE =
  "Connect to the server itself, or set pool_mode = session for this database: Stint uses prepared statements, " +
  "settings of the session and notifications. A node uses up to five connections."

const PROCESS = "SELECT pg_backend_pid()"

/** How many other clients try to take over the connection. By default, a pooler assigns the connection that was used last. */
const MAX_TRIES = 4

const processOf = async ({ query }: Connection): Promise<number> => Number((await query(PROCESS))[0]?.[0])

/** Opens connections with `open`, which must not prepare statements, and closes them. */
export const detect = async (open: () => Promise<Connection>): Promise<Pooling> => {
  const opened: Array<Connection> = []
  const next = async () => {
    const connection = await open()
    opened.push(connection)
    return connection
  }
  try {
    const connection = await next()
    const first = await processOf(connection)
    if (first === connection.announcedProcess) return "none"
    for (let n = 0; n < MAX_TRIES; n++) {
      const other = await next()
      await other.execute("BEGIN")
      if (await processOf(other) === first) return "transaction"
    }
    // The pooler may assign connections in rotation.
    return await processOf(connection) === first ? "session" : "transaction"
  } finally {
    await Promise.all(opened.map((connection) => connection.end()))
  }
}
