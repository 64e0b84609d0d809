/**
 * Decides what the database accepts after a failure, turns failures into store errors, and logs each outage once when it begins and once
 * when it ends.
 *
 * | condition | reads | changes to stored jobs | new jobs | ends |
 * |---|---|---|---|---|
 * | damaged | as far as they work | rejected | rejected | with the process: the operator must recover the file |
 * | missing, replaced | from the open file | rejected | rejected | when the file is back in its place |
 * | failing: I/O errors, no permission | as far as they work | tried | tried | with the next successful write |
 * | little free space | yes | yes | rejected | when there is enough space ({@link DiskSpace}) |
 *
 * A damaged file rejects writes although some would succeed: a job in it may be unreadable for the claim that should run it, and each write
 * can spread the damage.
 */
import * as OutageLog from "@stint/store/OutageLog"
import { StoreBroken, StoreError, StoreFull, StoreUnavailable } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import type { DiskSpace, SpaceChange } from "./DiskSpace.ts"
import type { FileIdentity, FileProblem } from "./FileIdentity.ts"

/** SQLite result codes (https://sqlite.org/rescode.html), without their extended part. */
const READONLY = 8
const IOERR = 10
const CORRUPT = 11
const FULL = 13
const CANTOPEN = 14
const NOT_A_DATABASE = 26

/** The codes that make every write fail, in contrast to errors of one statement. */
const OUTAGE_CODES: ReadonlySet<number | undefined> = new Set([READONLY, IOERR, CANTOPEN])

/** Remedies by result code. */
const REMEDIES: ReadonlyMap<number | undefined, string> = new Map([
  [
    READONLY,
    "The process has no permission to write the file or its folder. Restore the permission; the platform continues at once."
  ],
  [IOERR, "The disk reported an error. Check the system log and the disk's quotas."],
  [CANTOPEN, "The file or its folder cannot be opened. Check that both exist and that the process may access them."]
])

/** The result code of an SQLite error; undefined for other errors. */
export const codeOf = (cause: unknown): number | undefined =>
  cause instanceof Error && "errcode" in cause && typeof cause.errcode === "number" ? cause.errcode & 0xff : undefined

/** Whether SQLite found the file damaged. */
export const isDamage = (cause: unknown): boolean => {
  const code = codeOf(cause)
  return code === CORRUPT || code === NOT_A_DATABASE
}

/** Whether a write failed for lack of space. */
const isFull = (cause: unknown): boolean => codeOf(cause) === FULL

/** Thrown by a transaction that the condition does not allow. */
class NotAllowed extends Error {
  readonly reason: "full" | FileProblem | "damaged"
  constructor(reason: NotAllowed["reason"]) {
    super(`the database does not accept the write: ${reason}`)
    this.reason = reason
  }
}

const inMegabytes = (bytes: number): string => `${Math.floor(bytes / 1024 / 1024)} MiB`

const BROKEN_TEXTS: Readonly<Record<FileProblem, string>> = {
  missing: "is missing: the file, its -wal file or their folder was deleted or moved while the platform was running",
  replaced:
    "is not the file that the platform opened: the file or its -wal file was replaced or truncated while the platform was running"
}

/** The condition of an open database. */
export interface DatabaseCondition {
  /** Whether new jobs are rejected for lack of space. */
  readonly isLow: () => boolean
  /** Throws when the file is missing, replaced or damaged. */
  readonly checkBegin: () => void
  /** Within a transaction: throws when new jobs are rejected. */
  readonly checkNew: () => void
  /** After a commit: the reason why it is not durable, or undefined. */
  readonly confirm: () => unknown
  /** After a failed transaction: whether it may succeed now, because the reserve was deleted. */
  readonly makeRoom: (cause: unknown) => boolean
  /** Turns a failure into an error, and changes the condition accordingly. */
  readonly failed: (operation: string, cause: unknown) => StoreError
  /** Records the result of an integrity check. Undefined: no problems. */
  readonly checked: (problems: string | undefined) => void
  /** Ends all checks of the file. Called before the database is closed, which removes the WAL. */
  readonly close: () => void
  /** Looks for changes that no write has noticed: the file's place and the free space. */
  readonly update: () => void
  /** Whether the file is missing or was replaced, according to the last look or write. */
  readonly isBroken: () => boolean
  /** Whether {@link log} has something to log. */
  readonly hasNews: () => boolean
  /** Logs what changed since the last call. */
  readonly log: Effect.Effect<void>
}

/** Starts without an outage. */
export const make = (file: string, identity: FileIdentity, space: DiskSpace | undefined): DatabaseCondition => {
  let damage: string | undefined
  let broken: FileProblem | undefined
  let failing = false
  let closed = false
  let news: Array<Effect.Effect<void>> = []

  const outage = OutageLog.make({ onFailure: Effect.logError, onRecovery: Effect.logInfo(`${file} can be written again.`) })
  const exhausted = OutageLog.make({ onFailure: Effect.logError })
  const report = (entry: Effect.Effect<void>) => void news.push(entry)

  const foundDamage = (problems: string) => {
    if (damage !== undefined) return
    damage = problems
    report(
      Effect.logError(
        `${file} is damaged: ${problems}. Every write is rejected. Stop the platform and keep a copy of the folder. Then ` +
          `restore a backup, or recover the file (sqlite3 ${file} .recover | sqlite3 recovered.db), and start the platform again.`
      )
    )
  }

  const foundPlace = (problem: FileProblem | undefined) => {
    if (problem === broken) return
    broken = problem
    report(
      problem === undefined
        ? Effect.logInfo(`${file} is in its place again. The platform accepts writes.`)
        : Effect.logError(
          `${file} ${BROKEN_TEXTS[problem]}. Every write is rejected, because it would be lost. ` +
            "If the original file and its -wal file still exist, move them back: the platform continues at once. Otherwise do not stop the " +
            "platform yet: it still has the data, and is about to write a copy."
        )
    )
  }

  const spaceChanged = (change: SpaceChange | undefined) => {
    switch (change?._tag) {
      case undefined:
        return
      case "Low":
        return report(Effect.logError(
          `The disk of ${file} has ${inMegabytes(change.free)} left, less than ${
            inMegabytes(change.minFree)
          } (STINT_DISK_MIN_FREE). ` +
            "New jobs are rejected with 503. Stored jobs continue and can be cancelled, purged and deleted. " +
            `Free space on the disk: the platform accepts jobs again at ${inMegabytes(change.enough)} free.`
        ))
      case "Full":
        return report(Effect.logError(
          `The disk of ${file} is full. New jobs are rejected with 503. ` + (change.reserve === 0
            ? "The platform has no reserve on the disk, so results and cancels may fail as well. "
            : `The platform deleted its reserve of ${
              inMegabytes(change.reserve)
            }, so that stored jobs can run, end and be cancelled. `) +
            `Free space on the disk: the platform accepts jobs again at ${inMegabytes(change.enough)} free.`
        ))
      case "Enough":
        report(exhausted.succeeded)
        return report(
          Effect.logInfo(`The disk of ${file} has ${inMegabytes(change.free)} free. The platform accepts new jobs again.`)
        )
    }
  }

  const brokenProblem = () => damage !== undefined ? "damaged" as const : closed ? undefined : identity.check()

  const refused = (operation: string, reason: NotAllowed["reason"]): StoreError => {
    if (reason === "full") return new StoreError({ reason: new StoreFull({ operation }) })
    if (reason !== "damaged") foundPlace(reason)
    return new StoreError({ reason: new StoreBroken({ operation, problem: reason }) })
  }

  const checkBegin = () => {
    const problem = brokenProblem()
    if (problem !== undefined) throw new NotAllowed(problem)
  }

  return {
    isLow: () => space?.isLow() === true,
    checkBegin,
    checkNew: () => {
      if (space?.isLow() === true) throw new NotAllowed("full")
    },
    confirm: () => {
      const problem = identity.checkCommitted()
      if (problem !== undefined) return new NotAllowed(problem)
      if (broken !== undefined) foundPlace(undefined)
      if (space !== undefined && identity.hasGrown()) spaceChanged(space.update())
      if (failing) {
        failing = false
        report(outage.succeeded)
      }
      return undefined
    },
    makeRoom: (cause) => {
      if (space === undefined || !isFull(cause)) return false
      const { change, released } = space.full()
      spaceChanged(change)
      return released
    },
    failed: (operation, cause) => {
      if (cause instanceof NotAllowed) return refused(operation, cause.reason)
      if (isDamage(cause)) foundDamage(cause instanceof Error ? cause.message : String(cause))
      // If the file is missing or damaged, that is the cause of the error, whatever SQLite calls it.
      const problem = brokenProblem()
      if (problem !== undefined) return refused(operation, problem)
      if (isFull(cause)) {
        report(
          exhausted.failed(
            `${file}: changes to stored jobs fail too, and nothing is confirmed that is not stored. Free space on the disk.`
          )
        )
        return new StoreError({ reason: new StoreFull({ operation }) })
      }
      const code = codeOf(cause)
      if (!OUTAGE_CODES.has(code)) return new StoreError({ reason: new StoreUnavailable({ operation, cause }) })
      failing = true
      const text = `${file}: ${cause instanceof Error ? cause.message : String(cause)}.`
      report(outage.failed(`${text} Writes fail. Nothing is confirmed that is not stored. ${REMEDIES.get(code) ?? ""}`))
      return new StoreError({ reason: new StoreUnavailable({ operation, cause, logged: true }) })
    },
    checked: (problems) => {
      if (problems !== undefined) foundDamage(problems)
    },
    close: () => {
      closed = true
      identity.close()
    },
    update: () => {
      if (closed) return
      foundPlace(identity.check())
      if (space !== undefined) spaceChanged(space.update())
    },
    isBroken: () => broken !== undefined,
    hasNews: () => news.length > 0,
    log: Effect.suspend(() => {
      const entries = news
      news = []
      return Effect.all(entries, { discard: true })
    })
  }
}
