/**
 * One connection to PostgreSQL, on which statements are pipelined: a statement is sent without waiting for the results of earlier ones.
 *
 * The only module that knows the driver (docs/decisions/0046-postgresql.md). A connection on which no response arrives before the deadline is
 * destroyed. Otherwise, a network that drops packets would block its callers until TCP times out, after many minutes.
 */
import { hash } from "node:crypto"
import { Socket } from "node:net"
import { Client, type CustomTypesConfig, DatabaseError, types as parsers } from "pg"
import { escapeNul } from "./NulText.ts"

/** A row of a result, in the order of the selected columns. */
export type Row = ReadonlyArray<unknown>

/** Sends a statement without waiting for earlier ones, and returns its rows. */
export type Query = (text: string, values?: ReadonlyArray<unknown>) => Promise<ReadonlyArray<Row>>

/** Where and how to connect. */
export interface ConnectionOptions {
  /** `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with the driver's parameters such as `sslmode`. */
  readonly url: string
  /** Replaces the password of `url`. */
  readonly password?: string | undefined
  /** How long a statement or the start of a connection may take, in milliseconds. */
  readonly deadlineMs: number
  /** Whether the server keeps the plans of statements. False behind a transaction pooler without support for prepared statements. */
  readonly prepare: boolean
  /** Settings of the session, such as `SET jit = off`. */
  readonly settings?: string | undefined
}

/** An open connection. */
export interface Connection {
  /** The server process that the login announced. A pooler announces a different process from the one that runs the statements. */
  readonly announcedProcess: number | undefined
  readonly query: Query
  /** Sends statements without parameters as one string, such as `BEGIN; SET LOCAL ...`. */
  readonly execute: (text: string) => Promise<void>
  readonly isOpen: () => boolean
  /** Calls `listener` for each notification. */
  readonly onNotification: (listener: (payload: string) => void) => void
  /** Calls `listener` when the connection has ended, for any reason. */
  readonly onEnd: (listener: () => void) => void
  /** Closes the connection without waiting for statements. */
  readonly destroy: (reason: string) => void
  /** Closes the connection after the sent statements have finished. */
  readonly end: () => Promise<void>
}

const types: CustomTypesConfig = {
  getTypeParser: (oid, format) => oid === parsers.builtins.INT8 ? Number : parsers.getTypeParser(oid, format)
}

/** The SQLSTATE of an error that the server reported. */
export const sqlStateOf = (cause: unknown): string | undefined => cause instanceof DatabaseError ? cause.code : undefined

/** The constraint that a statement violated. */
export const constraintOf = (cause: unknown): string | undefined => cause instanceof DatabaseError ? cause.constraint : undefined

/** The maximum size of a statement's values. PostgreSQL accepts messages of less than 1 GiB, and a character has up to 3 bytes. */
const MAX_CHARACTERS = 256 * 1_048_576

const sizeOf = (value: unknown): number =>
  typeof value === "string" ? value.length : Array.isArray(value) ? value.reduce((sum: number, one) => sum + sizeOf(one), 0) : 0

/** A value without NUL characters, which the server would reject. Only ids and filters that callers made up still contain one here. */
const withoutNul = (value: unknown): unknown => typeof value === "string" && value.includes("\0") ? escapeNul(value) : value

const elementOf = (value: unknown): string => {
  if (value === null || value === undefined) return "NULL"
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return `"${value}"`
  if (typeof value !== "string") throw new TypeError(`a ${typeof value} cannot be an element of an array`)
  return `"${/["\\]/.test(value) ? value.replaceAll(/["\\]/g, "\\$&") : value}"`
}

/**
 * The values of a statement in the form in which they are sent. NUL characters are escaped ({@link escapeNul}), so that a lookup with one finds nothing
 * instead of failing like a database that is down. Throws when they are too large. The driver would notice this only after it has sent a
 * part of the statement, and the server would commit the transaction without the statement.
 */
export const encodeValues = (values: ReadonlyArray<unknown>): ReadonlyArray<unknown> => {
  const size = sizeOf(values)
  if (size > MAX_CHARACTERS) {
    throw new RangeError(`the values of a statement have ${size} characters; the limit is ${MAX_CHARACTERS}`)
  }
  return values.map((value) =>
    Array.isArray(value) ? `{${value.map((one) => elementOf(withoutNul(one))).join(",")}}` : withoutNul(value)
  )
}

/** The name under which the server keeps a prepared statement. */
const nameOf = (names: Map<string, string>, text: string): string => {
  const known = names.get(text)
  if (known !== undefined) return known
  const name = `stint_${hash("sha1", text, "hex").slice(0, 16)}`
  names.set(text, name)
  return name
}

/**
 * What the server does when this process stops without closing its connections, for example because it is frozen or has lost the network. Otherwise,
 * other nodes would wait for the locks of its transaction until the server's TCP keepalive fails, after two hours by default.
 *
 * - An idle transaction ends before the statements of other nodes that wait for its locks reach their deadlines.
 * - A statement ends soon after its deadline, because a statement that waits for a lock does not notice that the client has closed the connection.
 * - Some operating systems cannot check connections during a statement, and reject the last setting.
 */
const limitsOf = (deadlineMs: number): ReadonlyArray<string> => [
  `SET idle_in_transaction_session_timeout = ${Math.ceil(deadlineMs / 2)}; SET statement_timeout = ${deadlineMs + 1_000}`,
  "SET client_connection_check_interval = 1000"
]

/**
 * The server's function that waits until a standby has a commit. When the wait is cancelled, by an operator or by the limits above while this process is
 * frozen, the server warns and then reports the commit as successful. It would be lost with the server.
 */
const SYNCHRONOUS_WAIT = "SyncRepWaitForLSN"

/** Opens a connection. The promise rejects with the driver's error. */
export const connect = async ({ deadlineMs, password, prepare, settings, url }: ConnectionOptions): Promise<Connection> => {
  const socket = new Socket()
  const client = new Client({
    connectionString: url,
    ...(password === undefined ? {} : { password }),
    application_name: "stint",
    connectionTimeoutMillis: deadlineMs,
    keepAlive: true,
    pipeline: true,
    stream: () => socket,
    types
  })
  let open = true
  let running = 0
  let failure: Error | undefined
  let unconfirmed: Error | undefined
  const ended: Array<() => void> = []
  const close = () => {
    if (!open) return
    open = false
    clearTimeout(timer)
    for (const listener of ended) listener()
  }
  const destroy = (reason: string) => {
    failure ??= new Error(reason)
    close()
    socket.destroy()
  }
  const timer = setTimeout(() => {
    if (running > 0) destroy(`no answer from PostgreSQL within ${deadlineMs} ms`)
  }, deadlineMs)
  timer.unref()
  // Without a listener, the error of an idle connection would end the process.
  client.on("error", (error) => {
    failure ??= error
    close()
  })
  client.on("end", close)
  client.on("notice", ({ routine }) => {
    if (routine === SYNCHRONOUS_WAIT) {
      unconfirmed = new Error("the server has not waited until a standby has the commit")
      destroy(unconfirmed.message)
    }
  })
  try {
    await client.connect()
  } catch (cause) {
    destroy("the connection could not be opened")
    throw cause
  }
  // PgBouncer would reject a connection with startup parameters.
  for (const text of [...limitsOf(deadlineMs), ...(settings === undefined ? [] : [settings])]) client.query(text).catch(() => {})
  const names = new Map<string, string>()
  // Missing in the driver's types.
  const announced: unknown = "processID" in client ? client.processID : undefined

  const send = async <A>(run: () => Promise<A>): Promise<A> => {
    if (!open) throw failure ?? new Error("the connection to PostgreSQL is closed")
    running += 1
    // The deadline restarts at the first pending statement and at each response, because a busy connection can hang, too.
    if (running === 1) timer.refresh()
    try {
      const result = await run()
      if (unconfirmed !== undefined) throw unconfirmed
      return result
    } catch (cause) {
      throw sqlStateOf(cause) === undefined ? failure ?? cause : cause
    } finally {
      running -= 1
      if (open) timer.refresh()
    }
  }

  return {
    announcedProcess: typeof announced === "number" ? announced : undefined,
    query: (text, values = []) =>
      send(async () => {
        const { rows } = await client.query<Array<unknown>>({
          text,
          values: [...encodeValues(values)],
          rowMode: "array",
          ...(prepare ? { name: nameOf(names, text) } : {})
        })
        return rows
      }),
    execute: (text) =>
      send(async () => {
        await client.query(text)
      }),
    isOpen: () => open,
    onNotification: (listener) => {
      client.on("notification", ({ payload }) => listener(payload ?? ""))
    },
    onEnd: (listener) => {
      ended.push(listener)
    },
    destroy,
    end: async () => {
      if (!open) return
      close()
      try {
        await client.end()
      } catch {
        // The connection is closed anyway.
      }
    }
  }
}
