/**
 * Looks after an open database file in the background.
 *
 * - Every `intervalMs`: whether the file is in its place, and how much space is free. A platform without writes would notice neither. Writes
 *   the reserve file when there is space for it, and a {@link RescueCopy} when the file is gone.
 * - Once a day, and for large files also after the start: {@link IntegrityCheck}. Also after the modification time has changed without a
 *   write by the platform, but then at most once a minute: some network file systems change it late.
 */
import * as AlignedSleep from "@stint/store/AlignedSleep"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { statSync } from "node:fs"
import type { DatabaseSync } from "node:sqlite"
import type { DatabaseCondition } from "./DatabaseCondition.ts"
import type { DiskSpace } from "./DiskSpace.ts"
import type { FileIdentity } from "./FileIdentity.ts"
import * as IntegrityCheck from "./IntegrityCheck.ts"
import * as RescueCopy from "./RescueCopy.ts"

/** The pages of WAL after which SQLite runs a checkpoint: 16 MiB. */
export const CHECKPOINT_PAGES = 4_000

/** The database to look after. */
export interface Options {
  readonly db: DatabaseSync
  readonly file: string
  readonly condition: DatabaseCondition
  readonly identity: FileIdentity
  readonly space: DiskSpace
  /** Default: 1000. Each check takes a few microseconds. */
  readonly intervalMs: number | undefined
}

const CHECK_INTERVAL = Duration.days(1)

/** Milliseconds between two checks because of the modification time. */
const TOUCH_CHECK_INTERVAL = 60_000

/** Runs until the scope closes. */
export const start = (
  { condition, db, file, identity, intervalMs = 1_000, space }: Options
): Effect.Effect<void, never, Scope.Scope> =>
  Effect.gen(function*() {
    const setCheckpoints = (pages: number) => Effect.sync(() => db.exec(`PRAGMA wal_autocheckpoint = ${pages}`))

    // Without checkpoints, the thread reads a consistent file. The WAL grows meanwhile.
    const checkFile = Effect.acquireUseRelease(
      setCheckpoints(0),
      () => IntegrityCheck.inThread(file),
      () => setCheckpoints(CHECKPOINT_PAGES)
    ).pipe(
      Effect.tap((problems) => {
        condition.checked(problems)
        return condition.log
      }),
      Effect.catchDefect((cause) => Effect.logWarning(`The structure of ${file} could not be checked: ${String(cause)}.`))
    )

    const update = Effect.suspend(() => {
      condition.update()
      return condition.log
    }).pipe(
      Effect.catchDefect((defect) => Effect.logWarning(`The disk of ${file} could not be checked: ${String(defect)}.`))
    )
    const rescue = Effect.sync(() => RescueCopy.write(db, file)).pipe(
      Effect.flatMap((path) =>
        path === undefined ? Effect.void : Effect.logError(
          `The platform saved the content of ${file} in ${path}. To continue with it, stop the platform, then: mv ${path} ${file}`
        )
      ),
      Effect.catchDefect((cause) =>
        Effect.logError(
          `The platform could not save the content of ${file}: ${
            String(cause)
          }. Restore a backup: stop the platform, put the backup in its place and start the platform again.`
        )
      )
    )

    let rescued = false
    let touchedAt = -Infinity
    const look = Effect.gen(function*() {
      yield* update
      if (!condition.isBroken()) {
        rescued = false
        yield* Effect.promise(space.fillReserve)
        const now = performance.now()
        if (now - touchedAt > TOUCH_CHECK_INTERVAL && identity.wasTouched()) {
          touchedAt = now
          yield* checkFile
        }
      } else if (!rescued) {
        rescued = true
        yield* rescue
      }
    })

    // Before the first submission.
    yield* update
    // The file and the disk do not follow a test clock: moving it by a week must not check them 600,000 times.
    const onSystemClock = Effect.provideService(Clock.Clock, Clock.Clock.defaultValue())
    yield* look.pipe(Effect.repeat(AlignedSleep.schedule(intervalMs)), onSystemClock, Effect.forkScoped)
    const isLarge = statSync(file).size > IntegrityCheck.MAX_START_BYTES
    yield* checkFile.pipe(
      Effect.repeat(Schedule.spaced(CHECK_INTERVAL)),
      Effect.delay(isLarge ? Duration.zero : CHECK_INTERVAL),
      onSystemClock,
      Effect.forkScoped
    )
  })
