/**
 * The connections of a node to its database.
 *
 * ```
 *   commits  1 connection     changes of jobs and batches, in group commits   (JobGroupCommit.ts)
 *   writer   1 connection     transactions on control data and webhooks, one at a time
 *   readers  2 connections    single statements on committed data, pipelined
 *   hints    1 connection     heartbeat and notifications                     (PostgresNodes.ts)
 * ```
 *
 * The next operation reopens a lost connection. While the database is unavailable, operations fail with `StoreUnavailable`, at
 * once or after `deadlineMs`, and the log says when the outage begins and ends.
 */
import { CommitObserver } from "@stint/store/CommitObserver"
import type { ClaimResult } from "@stint/store/JobStore"
import * as OutageLog from "@stint/store/OutageLog"
import { StoreError, StoreFull, StoreUnavailable } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as ClaimCursors from "./ClaimCursors.ts"
import type * as Claims from "./Claims.ts"
import { connect, type Connection, type ConnectionOptions, type Query, sqlStateOf } from "./Connection.ts"
import * as DeadRows from "./DeadRows.ts"
import * as DueTimes from "./DueTimes.ts"
import * as Heartbeat from "./Heartbeat.ts"
import * as JobGroupCommit from "./JobGroupCommit.ts"
import { openTables } from "./OpenTables.ts"
import * as Pooler from "./Pooler.ts"
import { ConnectFailed, PostgresOpenError, StartFailed, TransactionPooler } from "./PostgresOpenError.ts"
import * as TallyRows from "./TallyRows.ts"
import type { Needs, Transaction } from "./Transaction.ts"
import * as UnreadableRows from "./UnreadableRows.ts"

/** How to reach the database. */
export interface Options {
  /** `postgres://USER:PASSWORD@HOST:PORT/DATABASE?sslmode=...`. */
  readonly url: Redacted.Redacted
  /** Replaces the password of the address, so that the address can be stored in a file that others may read. */
  readonly password?: Redacted.Redacted | undefined
  /**
   * How long a statement may take, in milliseconds. After that, its connection is closed and the operation fails. Default: 10,000. A shorter time
   * detects an unresponsive network sooner, but also ends long statements of a busy server.
   */
  readonly deadlineMs?: number | undefined
  /** The version of the program, which nodes of other versions and `stint doctor` can read. */
  readonly version?: string | undefined
}

export class PostgresDatabase extends Context.Service<PostgresDatabase, {
  /** The address without user and password. */
  readonly name: string
  /** The number of this node. */
  readonly node: number
  /** The version of the program, if it is known. */
  readonly version: string | undefined
  /** Opens a connection that the caller closes. */
  readonly connect: (deadlineMs: number) => Promise<Connection>
  /** Reads committed data. */
  readonly read: <A>(operation: string, run: (query: Query) => Promise<A>) => Effect.Effect<A, StoreError>
  /** Runs a transaction that changes no jobs. `run` may run again, so it must change only the database. */
  readonly write: <A>(operation: string, run: (query: Query) => Promise<A>) => Effect.Effect<A, StoreError>
  /**
   * Changes jobs in the next group commit. `run` may run again, so it must change only the transaction. `Again`: it must run alone, in its own
   * transaction.
   */
  readonly shared: <A>(
    operation: string,
    needs: Needs,
    run: (transaction: Transaction) => A | "Again"
  ) => Effect.Effect<A, StoreError>
  readonly claim: (claim: Claims.Claim) => Effect.Effect<ClaimResult, StoreError>
  /** Changes jobs and batches in a separate transaction. */
  readonly alone: <A>(operation: string, run: (transaction: Transaction) => Promise<A>) => Effect.Effect<A, StoreError>
  readonly unreadable: UnreadableRows.UnreadableRows
  readonly deadRows: DeadRows.DeadRows
  readonly dueTimes: DueTimes.DueTimes
  readonly heartbeat: Heartbeat.Heartbeat
}>()("@stint/store-postgres/PostgresDatabase") {}

/** The number of connections for reads. */
const READERS = 2

/**
 * Of all connections except that of transactions on jobs, which have their own (Transaction.ts). Otherwise, the query for due timers would scan a table
 * of waiting jobs from its start, because the planner expects to find a due one soon.
 */
export const PLANNER_SETTINGS = "SET enable_seqscan = off; SET jit = off"

/** The pause after a failed attempt to connect. Operations during the pause fail at once. */
const RECONNECT_MILLIS = 250

const DISK_FULL = "53100"

/**
 * States in which the server accepts no statements: shutdown, start, crash of another backend, too many connections, a standby, a transaction of
 * this process that had no statements for too long.
 */
const AWAY = new Set(["57P01", "57P02", "57P03", "53300", "25006", "25P03"])

/**
 * The host, port and database of an address. Hidden if they cannot be parsed, because the address may contain a password with unescaped characters.
 */
export const nameOf = (url: string): string => {
  if (!URL.canParse(url)) return "the given address"
  const { hash, host, pathname, search } = new URL(url)
  const isPlain = /^\/[^/@]*$/.test(pathname) && hash === "" && !/^\?[^=]*@/.test(search)
  return isPlain ? `${host}${pathname}` : "the given address"
}

/**
 * A standby responds to reads, with data that may be old. During a failover, a proxy or a name may point to one that is never promoted, and a connection to
 * it would stay open.
 */
const refuseStandby = async (connection: Connection): Promise<void> => {
  const [row] = await connection.query("SELECT pg_is_in_recovery()")
  if (row?.[0] !== true) return
  const problem = "the server is a standby"
  connection.destroy(problem)
  throw new Error(problem)
}

/** A connection that is opened on first use, and again after it was lost. */
interface Slot {
  readonly get: () => Promise<Connection>
  readonly close: () => Promise<void>
}

const makeSlot = (options: ConnectionOptions): Slot => {
  let current: Promise<Connection> | undefined
  let failedAt = -Infinity
  let failure: unknown
  let closed = false

  const open = async (): Promise<Connection> => {
    if (closed) throw new Error("the store is closed")
    if (performance.now() - failedAt < RECONNECT_MILLIS) throw failure
    try {
      const connection = await connect(options)
      connection.onEnd(() => {
        current = undefined
      })
      await refuseStandby(connection)
      return connection
    } catch (cause) {
      failedAt = performance.now()
      failure = cause
      current = undefined
      throw cause
    }
  }

  return {
    get: () => {
      current ??= open().catch((cause: unknown) => {
        current = undefined
        throw cause
      })
      return current
    },
    close: async () => {
      closed = true
      const connection = await current?.catch(() => undefined)
      await connection?.end()
    }
  }
}

/** Runs a transaction. */
export const transact = async <A>(connection: Connection, run: (query: Query) => Promise<A>): Promise<A> => {
  try {
    const begun = connection.execute("BEGIN")
    const [, value] = await Promise.all([begun, run(connection.query)])
    await connection.execute("COMMIT")
    return value
  } catch (cause) {
    if (connection.isOpen()) await connection.execute("ROLLBACK").catch(() => {})
    throw cause
  }
}

/** The state of a transaction that the server has ended, because it and another one waited for each other. */
const DEADLOCK = "40P01"

/** How often a transaction that deadlocked runs again. */
const MAX_TRIES = 10

const repeatAfterDeadlock = async <A>(run: () => Promise<A>): Promise<A> => {
  for (let tries = 1;; tries++) {
    try {
      return await run()
    } catch (cause) {
      if (tries === MAX_TRIES || sqlStateOf(cause) !== DEADLOCK) throw cause
    }
  }
}

/** Runs transactions one at a time. */
const makeWriter = (slot: Slot) => {
  let last: Promise<unknown> = Promise.resolve()
  return <A>(run: (query: Query) => Promise<A>): Promise<A> => {
    const next = last.then(() => repeatAfterDeadlock(async () => transact(await slot.get(), run)))
    last = next.catch(() => {})
    return next
  }
}

/** The message of an error. */
export const problemOf = (cause: unknown): string => {
  if (cause instanceof AggregateError) return cause.errors.map(problemOf).join("; ")
  return cause instanceof Error && cause.message !== "" ? cause.message : String(cause)
}

/** The error of a start, with its reason. */
export const openError = (database: string, cause: unknown): PostgresOpenError => {
  if (cause instanceof PostgresOpenError) return cause
  const state = sqlStateOf(cause)
  const problem = problemOf(cause)
  // Classes 08, 28, 3D: connection, password, unknown database.
  const isConnection = state === undefined || /^(08|28|3D|53|57)/.test(state)
  return new PostgresOpenError({ database, reason: isConnection ? new ConnectFailed({ problem }) : new StartFailed({ problem }) })
}

/** The database. Migrates its tables first. Commands that were submitted finish before the connections are closed. */
export const layer = (options: Options): Layer.Layer<PostgresDatabase, PostgresOpenError> =>
  Layer.effect(
    PostgresDatabase,
    Effect.gen(function*() {
      const url = Redacted.value(options.url)
      const name = nameOf(url)
      const connection: ConnectionOptions = {
        url,
        ...(options.password === undefined ? {} : { password: Redacted.value(options.password) }),
        deadlineMs: options.deadlineMs ?? 10_000,
        prepare: true
      }
      const [commitSlot, writerSlot] = [makeSlot(connection), makeSlot({ ...connection, settings: PLANNER_SETTINGS })]
      const readers = Array.from({ length: READERS }, () => makeSlot({ ...connection, settings: PLANNER_SETTINGS }))
      const slots = [commitSlot, writerSlot, ...readers]
      yield* Effect.addFinalizer(() => Effect.promise(() => Promise.all(slots.map(({ close }) => close()))))
      const node = yield* Effect.tryPromise({
        try: async () => {
          if (await Pooler.detect(() => connect({ ...connection, prepare: false })) === "transaction") {
            throw new PostgresOpenError({ database: name, reason: new TransactionPooler() })
          }
          return openTables(await commitSlot.get(), name)
        },
        catch: (cause) => openError(name, cause)
      })

      const unreadable = UnreadableRows.make()
      const deadRows = DeadRows.make()
      const heartbeat = Heartbeat.make(yield* Clock.Clock)
      const dueTimes = DueTimes.make(heartbeat)
      const known = { unreadable, deadRows, dueTimes, cursors: ClaimCursors.make(deadRows) }
      const groupCommit = JobGroupCommit.make(commitSlot.get, TallyRows.make(node), known, yield* CommitObserver)
      yield* Effect.addFinalizer(() => Effect.promise(groupCommit.idle))
      const writer = makeWriter(writerSlot)

      let failing = false
      const outage = OutageLog.make({
        onFailure: (problem) =>
          Effect.logError(
            `PostgreSQL at ${name} cannot be used: ${problem}. Requests are rejected with 503. Nothing is confirmed that is not stored. ` +
              "The platform continues by itself when the database is back."
          ),
        onRecovery: Effect.logInfo(`PostgreSQL at ${name} can be used again.`)
      })

      const failed = (operation: string, cause: unknown, isLost = true): Effect.Effect<never, StoreError> => {
        if (cause instanceof StoreError) return Effect.fail(cause)
        const state = sqlStateOf(cause)
        if (state === DISK_FULL) return Effect.fail(new StoreError({ reason: new StoreFull({ operation }) }))
        if (state === undefined ? !isLost : !AWAY.has(state)) {
          return Effect.fail(new StoreError({ reason: new StoreUnavailable({ operation, cause }) }))
        }
        failing = true
        const error = Effect.fail(new StoreError({ reason: new StoreUnavailable({ operation, cause, logged: true }) }))
        return Effect.andThen(outage.failed(problemOf(cause)), error)
      }

      const done = <A>(value: A): Effect.Effect<A> => {
        if (!failing) return Effect.succeed(value)
        failing = false
        return Effect.as(outage.succeeded, value)
      }

      const settled = <A>(operation: string, run: () => Promise<A>): Effect.Effect<A, StoreError> =>
        Effect.callback<A, StoreError>((resume) => {
          const attempt = async () => {
            try {
              resume(done(await run()))
            } catch (cause) {
              resume(failed(operation, cause))
            }
          }
          void attempt()
        })

      const submitted = <A>(
        operation: string,
        submit: (settle: (result: JobGroupCommit.CommandResult<A>) => void) => void
      ): Effect.Effect<A, StoreError> =>
        Effect.callback<A, StoreError>((resume) => {
          submit((result) => resume(result.ok ? done(result.value) : failed(operation, result.cause, result.isLost)))
        })

      let turn = 0
      const reader = (): Slot => readers[turn++ % readers.length] ?? writerSlot

      return PostgresDatabase.of({
        name,
        node,
        version: options.version,
        connect: (deadlineMs) => connect({ ...connection, deadlineMs }),
        read: (operation, run) => settled(operation, async () => run((await reader().get()).query)),
        write: (operation, run) => settled(operation, () => writer(run)),
        shared: (operation, needs, run) => submitted(operation, (settle) => groupCommit.shared(needs, run, settle)),
        claim: (claim) => submitted("claim", (settle) => groupCommit.claim(claim, settle)),
        alone: (operation, run) => submitted(operation, (settle) => groupCommit.alone(run, settle)),
        unreadable,
        deadRows,
        dueTimes,
        heartbeat
      })
    })
  )
