/**
 * Group commit: changes to this node's jobs that arrive together share one transaction, and so one sync and few round trips.
 *
 * ```
 *   shared commands, claims --+
 *   shared commands, claims --+--> pending --> one transaction at a time, on one connection --> settle
 *   a command alone ----------+
 * ```
 *
 * - Commands succeed only after the commit.
 * - While a transaction runs, the next commands gather. The busier the node, the larger its transactions, up to a number of commands and of characters.
 * - When a transaction fails because of a statement, each of its commands runs alone, and only the cause fails. When the connection fails, all of
 *   its commands fail: their outcome is unknown.
 * - A command may run again after a rollback, so it must change only the transaction.
 */
import type { ClaimResult } from "@stint/store/JobStore"
import * as Claims from "./Claims.ts"
import { type Connection, constraintOf, sqlStateOf } from "./Connection.ts"
import type { TallyRows } from "./TallyRows.ts"
import { begin, type Known, type Needs, type Transaction } from "./Transaction.ts"
import { commit } from "./TransactionWrites.ts"

/** The maximum number of commands in one transaction. A higher limit would gain little, because the cost of the sync per command is already small. */
const MAX_COMMANDS = 256

/**
 * One transaction stores at most this number of characters, unless its first command alone stores more. All rows of a table are sent in one
 * statement, whose size the driver and the server limit.
 */
const MAX_CHARACTERS = 64 * 1_048_576

/** How often a command that runs alone is repeated after a deadlock or a conflict with another node. */
const MAX_TRIES = 10

/** The result of a command. */
export type CommandResult<A> =
  | { readonly ok: true; readonly value: A }
  /** `isLost`: the connection was lost or could not be opened, so the command is not the cause. */
  | { readonly ok: false; readonly cause: unknown; readonly isLost: boolean }

/** A command: what it loads, and what it does with the loaded rows. */
interface Command {
  readonly _tag: "Shared" | "Claim" | "Alone"
  readonly needs: Needs
  /** Runs within a transaction. `Again`: runs alone, in a transaction of its own. */
  readonly run: (transaction: Transaction) => Promise<"Again" | undefined> | "Again" | undefined
  readonly succeed: () => void
  readonly fail: (failure: unknown) => void
}

/** The group commit of a node. */
export interface JobGroupCommit {
  /** Runs with the rows that it needs, in a transaction with other commands. */
  readonly shared: <A>(
    needs: Needs,
    run: (transaction: Transaction) => A | "Again",
    settle: (result: CommandResult<A>) => void
  ) => void
  readonly claim: (claim: Claims.Claim, settle: (result: CommandResult<ClaimResult>) => void) => void
  /** Runs in a transaction of its own. */
  readonly alone: <A>(run: (transaction: Transaction) => Promise<A>, settle: (result: CommandResult<A>) => void) => void
  /** Resolves when no command is pending or running. */
  readonly idle: () => Promise<void>
}

const command = <A>(
  _tag: Command["_tag"],
  needs: Needs,
  run: (transaction: Transaction) => Promise<A | "Again"> | A | "Again",
  settle: (result: CommandResult<A>) => void
): Command => {
  let result: CommandResult<A> | undefined
  return {
    _tag,
    needs,
    run: (transaction) => {
      const set = (value: A | "Again") => {
        if (value === "Again") return "Again" as const
        result = { ok: true, value }
        return undefined
      }
      const value = run(transaction)
      return value instanceof Promise ? value.then(set) : set(value)
    },
    succeed: () => settle(result ?? { ok: false, cause: new Error("the command has not run"), isLost: false }),
    fail: (failure) => settle({ ok: false, cause: causeOf(failure), isLost: isLost(failure) })
  }
}

/** Deadlock, serialization failure, and a unique value that another transaction has inserted in the meantime. */
const CONFLICTS = new Set(["40P01", "40001", "23505", "22012"])

/** Whether the command may succeed when it runs again. */
export const mayRepeat = (cause: unknown): boolean => {
  const state = sqlStateOf(cause)
  return state !== undefined && CONFLICTS.has(state) && constraintOf(cause) !== "jobs_pkey"
}

/** A transaction that failed. */
class TransactionFailed extends Error {
  /** The connection was lost, so the outcome is unknown. */
  readonly isLost: boolean
  constructor(cause: unknown, isLost: boolean) {
    super("the transaction failed", { cause })
    this.isLost = isLost
  }
}

const causeOf = (failure: unknown): unknown => failure instanceof TransactionFailed ? failure.cause : failure
const isLost = (failure: unknown): boolean => failure instanceof TransactionFailed && failure.isLost

/**
 * Starts an idle group commit. `connect` returns its connection, and opens it again after it was lost. `committed`: receives the number of commands
 * of each transaction.
 */
export const make = (
  connect: () => Promise<Connection>,
  tallies: TallyRows,
  known: Known,
  committed: (commands: number) => void = () => {}
): JobGroupCommit => {
  let pending: Array<Command> = []
  let running = false
  const waiting: Array<() => void> = []
  let mustReload = false

  /** Runs commands in one transaction. Returns those that must run alone. */
  const transact = async (commands: ReadonlyArray<Command>): Promise<ReadonlyArray<Command>> => {
    let connection: Connection | undefined
    try {
      connection = await connect()
      if (mustReload) {
        await tallies.reload(connection.query)
        mustReload = false
      }
      const transaction = begin(connection, tallies.begin(), known, commands.length === 1)
      await transaction.prepare(commands.map(({ needs }) => needs))
      const again: Array<Command> = []
      // Claims run last: they see what the other commands have changed.
      for (const one of [...commands].sort((a, b) => Number(a._tag === "Claim") - Number(b._tag === "Claim"))) {
        const done = one.run(transaction)
        if ((done instanceof Promise ? await done : done) === "Again") again.push(one)
      }
      try {
        await commit(transaction.work, connection.execute, known.cursors)
      } finally {
        // After the commit, because a timer must be in the database when it is due. A lost connection leaves the outcome open.
        known.dueTimes.wrote(transaction.work)
      }
      if (again.length < commands.length) committed(commands.length - again.length)
      return again
    } catch (cause) {
      mustReload = true
      if (connection?.isOpen() !== true) throw new TransactionFailed(cause, true)
      await connection.execute("ROLLBACK").catch(() => {})
      throw new TransactionFailed(cause, false)
    }
  }

  const runAlone = async (one: Command) => {
    for (let attempt = 1;; attempt++) {
      try {
        await transact([one])
        return one.succeed()
      } catch (failure) {
        if (attempt === MAX_TRIES || !mayRepeat(causeOf(failure))) return one.fail(failure)
      }
    }
  }

  const runShared = async (commands: ReadonlyArray<Command>) => {
    let again: ReadonlyArray<Command>
    try {
      again = await transact(commands)
    } catch (failure) {
      if (isLost(failure) || (commands.length === 1 && !mayRepeat(causeOf(failure)))) {
        return commands.forEach((one) => one.fail(failure))
      }
      for (const one of commands) await runAlone(one)
      return
    }
    for (const one of commands) if (!again.includes(one)) one.succeed()
    for (const one of again) await runAlone(one)
  }

  const next = async () => {
    const [first] = pending
    if (first === undefined) return
    if (first._tag === "Alone") {
      pending = pending.slice(1)
      return runAlone(first)
    }
    let characters = 0
    const end = pending.findIndex(({ _tag, needs }, index) => {
      characters += needs.characters ?? 0
      return _tag === "Alone" || (index > 0 && characters > MAX_CHARACTERS)
    })
    const commands = pending.slice(0, Math.min(end === -1 ? pending.length : end, MAX_COMMANDS))
    pending = pending.slice(commands.length)
    return runShared(commands)
  }

  const drain = async () => {
    while (pending.length > 0) await next()
    running = false
    for (const resolve of waiting.splice(0)) resolve()
  }

  const submit = (one: Command) => {
    pending.push(one)
    if (running) return
    running = true
    // Runs after all readable sockets have been read, so that requests that arrive together share the first transaction.
    setImmediate(() => void drain())
  }

  const claim: JobGroupCommit["claim"] = (one, settle) =>
    submit(command("Claim", { claims: [one] }, (transaction) => Claims.run(transaction, one), (result) => {
      if (!result.ok) {
        // The earlier transactions are committed, so the worker has their jobs.
        settle(one.found === undefined ? result : { ok: true, value: one.found })
      } else if (result.value.isCut) claim({ ...one, found: result.value.result }, settle)
      else settle({ ok: true, value: result.value.result })
    }))

  return {
    shared: (needs, run, settle) => submit(command("Shared", needs, run, settle)),
    claim,
    alone: (run, settle) => submit(command("Alone", {}, run, settle)),
    idle: () =>
      new Promise((resolve) => {
        if (running) waiting.push(resolve)
        else resolve()
      })
  }
}
