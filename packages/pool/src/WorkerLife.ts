/**
 * One worker that the platform has started, or is about to.
 *
 * ```
 *   run: pool.start ----> handle.exit ----> Ended
 *           |  end, or the pool cannot         ^
 *           +----> NotStarted                  | end: killed
 * ```
 */
import type { WorkerId } from "@stint/contract/Ids"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { WorkerExit } from "./WorkerExit.ts"
import type { StartRequest, WorkerHandle, WorkerPool } from "./WorkerPool.ts"

/** How a worker's life went. */
export type LifeEnd =
  /** It never ran. `throttled`: for want of room, which is nobody's fault (wire-facts 4). `reason` is for people. */
  | { readonly _tag: "NotStarted"; readonly state: "unhealthy" | "throttled"; readonly reason: string }
  | { readonly _tag: "Ended"; readonly exit: WorkerExit }

export interface WorkerLife {
  readonly id: WorkerId
  readonly startedAt: number
  /** What it was started from: it is outdated when this changes. */
  readonly origin: string
  /** It has called the platform. */
  ready: boolean
  /** Set once it takes no more jobs. Not asked to leave before `askAt`: a worker that said goodbye itself needs no asking. */
  leaving: { readonly askAt: number; askedAt: number | undefined } | undefined
  /** Why the platform killed it, as a sentence; undefined when it did not. */
  readonly endedBecause: () => string | undefined
  /** Asks it to leave; ends it where it does not even run yet. */
  readonly ask: Effect.Effect<void>
  /** Kills it, or gives up starting it. The first reason, a sentence, counts. */
  readonly end: (because: string) => Effect.Effect<void>
  /** Starts it and waits for its end. Run it once; it is killed when that is interrupted. */
  readonly run: Effect.Effect<LifeEnd>
}

export const make = (pool: WorkerPool["Service"], request: StartRequest, startedAt: number, origin: string): WorkerLife => {
  const ending = Deferred.makeUnsafe<string>()
  let endedBecause: string | undefined
  let handle: WorkerHandle | undefined

  const end = (because: string) =>
    Effect.suspend(() => {
      if (endedBecause !== undefined) return Effect.void
      endedBecause = because
      Deferred.doneUnsafe(ending, Effect.succeed(because))
      return handle === undefined ? Effect.void : handle.kill
    })

  const notStarted = (state: "unhealthy" | "throttled", reason: string): LifeEnd => ({ _tag: "NotStarted", state, reason })

  const start = pool.start(request).pipe(
    Effect.map((started): LifeEnd | WorkerHandle => started),
    Effect.catch((error) =>
      Effect.succeed(notStarted(error.reason._tag === "NoCapacity" ? "throttled" : "unhealthy", error.message))
    ),
    Effect.raceFirst(Effect.map(Deferred.await(ending), (because) => notStarted("unhealthy", because)))
  )

  const run = Effect.gen(function*() {
    const started = yield* start
    if ("_tag" in started) return started
    handle = started
    if (endedBecause !== undefined) yield* started.kill
    const ended: LifeEnd = { _tag: "Ended", exit: yield* started.exit }
    return ended
  }).pipe(
    Effect.scoped,
    Effect.catchDefect((defect) =>
      Effect.as(
        Effect.logError(`The pool failed while it kept worker ${request.worker}.`, Cause.die(defect)),
        notStarted("unhealthy", `The pool failed: ${defect instanceof Error ? defect.message : String(defect)}.`)
      )
    )
  )

  return {
    id: request.worker,
    startedAt,
    origin,
    ready: false,
    leaving: undefined,
    endedBecause: () => endedBecause,
    ask: Effect.suspend(() => handle === undefined ? end(`Worker ${request.worker} was no longer needed.`) : handle.drain),
    end,
    run
  }
}
