/**
 * Group commit: whoever writes at the same time shares one transaction and one sync to disk.
 *
 * ```
 *   submit(a) --+
 *   submit(b) --+--> pending --setImmediate--> BEGIN  a b c ...  COMMIT --> settle a, b, c ...
 *   submit(c) --+                                 |
 *                                                 | one throws, or COMMIT fails
 *                                                 v
 *                                              ROLLBACK --> each again, alone: only the culprit fails
 * ```
 *
 * - Nobody is told of success before COMMIT has returned.
 * - A transaction begins and ends without yielding, so nobody ever reads what is not committed.
 * - A command is a function of the database alone, so it can run again after a rollback.
 * - Commands run in the order in which they came.
 *
 * `setImmediate` runs after the sockets that are readable were read, so requests that arrived together are committed together, and a
 * lone one waits for nothing.
 */

/** The most commands in one transaction. More saves little: by then the sync is a small part of the cost of each. */
const MAX_COMMANDS = 256

/** After so many milliseconds a transaction takes in no more commands, so that the event loop gets its turn. */
const MAX_MILLIS = 8

/** How the database brackets a transaction. All may throw but `rollback`. */
export interface Transactions {
  readonly begin: () => void
  readonly commit: () => void
  readonly rollback: () => void
}

/** Who keeps something in memory that belongs to the database. */
export interface Participant {
  /** The last chance to write. May throw. */
  readonly beforeCommit: () => void
  readonly committed: () => void
  readonly rolledBack: () => void
}

/** What became of a command. */
export type CommandResult<A> =
  | { readonly ok: true; readonly value: A }
  | { readonly ok: false; readonly cause: unknown }

/** The pending commands of one database. */
export interface GroupCommit {
  /** Runs a command in the next transaction and settles it when that is committed, or could not be. */
  readonly submit: <A>(run: () => A, settle: (settled: CommandResult<A>) => void) => void
  readonly join: (participant: Participant) => void
  /** Runs all that is pending, now. */
  readonly flush: () => void
  /** How many transactions were committed so far. */
  readonly commits: () => number
}

interface Command {
  readonly run: () => void
  readonly succeed: () => void
  readonly fail: (cause: unknown) => void
}

const command = <A>(run: () => A, settle: (settled: CommandResult<A>) => void): Command => {
  let settled: CommandResult<A> | undefined
  return {
    run: () => {
      settled = { ok: true, value: run() }
    },
    // Made only where it is needed: an error takes its stack with it, which would cost a command more than its own bookkeeping.
    succeed: () => settle(settled ?? { ok: false, cause: new Error("the command has not run") }),
    fail: (cause) => settle({ ok: false, cause })
  }
}

export const make = (transactions: Transactions): GroupCommit => {
  const participants: Array<Participant> = []
  let pending: Array<Command> = []
  let scheduled = false
  let commits = 0

  /**
   * Runs commands from the first on, as many as fit, in one transaction. Says how many it took on, and leaves it to the caller to tell
   * them, because whoever is told may go on at once with the next write, or with closing the database.
   */
  const transact = (commands: ReadonlyArray<Command>): { readonly taken: number; readonly settleAll: () => void } => {
    const started = performance.now()
    let taken = 0
    try {
      transactions.begin()
      for (const one of commands) {
        taken += 1
        one.run()
        if (taken === MAX_COMMANDS || performance.now() - started > MAX_MILLIS) break
      }
      for (const participant of participants) participant.beforeCommit()
      transactions.commit()
    } catch (cause) {
      transactions.rollback()
      for (const participant of participants) participant.rolledBack()
      if (taken <= 1) return { taken: 1, settleAll: () => commands[0]?.fail(cause) }
      const alone = commands.slice(0, taken).map((one) => transact([one]))
      return { taken, settleAll: () => alone.forEach(({ settleAll }) => settleAll()) }
    }
    commits += 1
    for (const participant of participants) participant.committed()
    return { taken, settleAll: () => commands.slice(0, taken).forEach((one) => one.succeed()) }
  }

  const next = () => {
    const commands = pending
    const { taken, settleAll } = transact(commands)
    pending = commands.slice(taken)
    settleAll()
  }

  const schedule = () => {
    if (scheduled) return
    scheduled = true
    setImmediate(() => {
      scheduled = false
      if (pending.length === 0) return
      next()
      if (pending.length > 0) schedule()
    })
  }

  return {
    submit: (run, settle) => {
      pending.push(command(run, settle))
      schedule()
    },
    join: (participant) => {
      participants.push(participant)
    },
    flush: () => {
      while (pending.length > 0) next()
    },
    commits: () => commits
  }
}
