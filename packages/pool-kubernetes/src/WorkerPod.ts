/**
 * Supervises the pod of one worker, from its creation or adoption until its removal.
 *
 * ```
 *   created --> waits for a node, an image --> running --ended--> last lines read --> exit: Exited | Killed | Lost --forget--> removed
 *                  |  no capacity, no start                 |  deleted by another program --> exit: Lost
 *                  +--> the start fails                     +-- the API does not respond: counts as running
 * ```
 *
 * An ended pod is the record of its worker: it stays until the worker's jobs are back in the queue, so that a platform that starts before that finds it. A pod
 * that was deleted leaves no record; its jobs then wait for the ends of their leases.
 *
 * The API has no signals. A request to exit is a deletion with the pod's grace period, and a kill is a deletion with a grace period of one second. A
 * deletion without a grace period removes only the object, while the processes may continue
 * (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination-forced).
 */
import type { EndpointId, WorkerId } from "@stint/contract/Ids"
import { NoCapacity, PoolError, PoolUnavailable } from "@stint/pool/PoolError"
import type { WorkerExit } from "@stint/pool/WorkerExit"
import type { WorkerLog } from "@stint/pool/WorkerLog"
import * as WorkerOutput from "@stint/pool/WorkerOutput"
import type { StartRequest, WorkerHandle } from "@stint/pool/WorkerPool"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import { isPassing } from "./KubernetesError.ts"
import type { PodSettings } from "./KubernetesSettings.ts"
import * as OutputPositions from "./OutputPositions.ts"
import type { Pod } from "./Pod.ts"
import { DEFAULT_GRACE, nameOf } from "./PodBody.ts"
import * as PodOutput from "./PodOutput.ts"
import type { PodsApi } from "./PodsApi.ts"
import { type End, endOf, endOfRemoved, startOf } from "./PodState.ts"
import type { PodTable, Seen } from "./PodTable.ts"

/** The grace period of a kill: the shortest one that waits for the node to confirm the end. Seconds. */
const KILL_GRACE = 1

/** How often to retry a request without a response. */
const RETRIES = { while: isPassing, times: 10, schedule: Schedule.spaced("500 millis") }

/** How long to wait for a killed pod to end and be removed. */
const KILL_WAIT = "15 seconds"

/** How long removing an ended pod may take. */
const REMOVE_LIMIT = "30 seconds"

/** A worker in a pod. */
export interface Worker {
  readonly endpoint: EndpointId
  readonly worker: WorkerId
  readonly variables: StartRequest["variables"]
  readonly mask: StartRequest["mask"]
  readonly settings: PodSettings
}

/** The parts of the pool that pods share. */
export interface Dependencies {
  readonly api: PodsApi
  readonly table: PodTable
  readonly log: WorkerLog
  readonly dataDir: string
}

export interface WorkerPod {
  readonly handle: WorkerHandle
  /** Completes when the worker's container runs. Fails with the cluster's message if it cannot run. */
  readonly started: Effect.Effect<void, PoolError>
  /** Kills the pod unless it has ended, and waits for its end, within a limit. */
  readonly close: Effect.Effect<void>
  /** Removes the ended pod. */
  readonly forget: Effect.Effect<void>
  /** Ends the supervision of a pod that was not created. */
  readonly discard: Effect.Effect<void>
}

const noCapacity = (problem: string) => new PoolError({ reason: new NoCapacity({ problem: problem.replace(/\.$/, "") }) })

/** Supervises a pod that may not exist yet. `describe` maps the exit that it observes to the one that is reported. */
export const supervise = Effect.fnUntraced(function*(
  { api, dataDir, log, table }: Dependencies,
  worker: Worker,
  describe: (exit: WorkerExit) => WorkerExit = (exit) => exit
): Effect.fn.Return<WorkerPod> {
  const name = nameOf(worker.worker)
  const { graceSeconds = DEFAULT_GRACE, startSeconds = 900, unschedulableSeconds = 60 } = worker.settings
  const asked = { exit: false, kill: false }
  const started = yield* Deferred.make<void, PoolError>()
  const ended = yield* Deferred.make<WorkerExit>()
  const file = yield* Effect.sync(() => OutputPositions.open(dataDir, name)).pipe(
    Effect.catchDefect((cause) =>
      Effect.as(Effect.logWarning(`The position in the output of pod ${name} cannot be stored. ${String(cause)}`), undefined)
    )
  )
  const sink = WorkerOutput.lineSink(log, worker)
  const output = PodOutput.make(api, name, sink, file?.position, (position) => file?.write(position))

  const remove = (grace: number) => Effect.retry(api.remove(name, grace), RETRIES)
  const ask = (grace: number) =>
    Effect.catch(remove(grace), (error) => Effect.logWarning(`The request to end pod ${name} failed. ${error.message}`))
  const kill = Effect.suspend(() => {
    asked.kill = true
    return ask(KILL_GRACE)
  })
  /** The grace period of a requested deletion that the pod does not show yet. */
  const lostRequest = ({ metadata: { deletionGracePeriodSeconds = 0, deletionTimestamp } }: Pod): number | undefined => {
    const isDeleted = deletionTimestamp !== undefined
    if (asked.kill) return isDeleted && deletionGracePeriodSeconds <= KILL_GRACE ? undefined : KILL_GRACE
    return asked.exit && !isDeleted ? graceSeconds : undefined
  }

  /** Why the pod waits, for the error of a start that takes too long. */
  let waitsFor = { unschedulable: false, reason: "the API has not reported it yet" }
  const unschedulable = Effect.sleep(`${unschedulableSeconds} seconds`).pipe(
    Effect.andThen(Effect.suspend(() =>
      waitsFor.unschedulable
        ? Deferred.fail(started, noCapacity(`no node has room for the pod ${name} (${waitsFor.reason})`))
        : Effect.void
    ))
  )
  let isTimed = false

  let following: Fiber.Fiber<void> | undefined
  /** Handles an observed state. Returns the exit, if the pod has ended. */
  const handle = Effect.fnUntraced(function*(seen: Seen): Effect.fn.Return<End | undefined> {
    if (seen._tag === "Removed") return endOfRemoved(name, seen.pod, asked)
    const { pod } = seen
    const lost = lostRequest(pod)
    const start = startOf(pod, worker.endpoint)
    if (start._tag === "Failed") yield* Deferred.fail(started, start.error)
    else if (start._tag === "Started") {
      yield* Deferred.succeed(started, undefined)
      following ??= yield* Effect.forkDetach(output.follow)
    } else {
      waitsFor = { unschedulable: start.unschedulable !== undefined, reason: start.reason }
      if (waitsFor.unschedulable && !isTimed) {
        isTimed = true
        yield* Effect.forkDetach(Effect.raceFirst(unschedulable, Effect.asVoid(Deferred.await(ended))))
      }
    }
    const end = endOf(pod, asked)
    if (end === undefined && lost !== undefined) yield* Effect.forkChild(Effect.ignore(api.remove(name, lost)))
    return end
  })

  const events = table.follow(name)
  const unfollow = Effect.sync(() => {
    file?.remove()
    table.unfollow(name)
  })
  // If no node has to confirm the end, the API removes the pod at once.
  const forget = remove(KILL_GRACE).pipe(
    Effect.timeout(REMOVE_LIMIT),
    Effect.catch((error) =>
      Effect.logWarning(`The ended pod ${name} cannot be removed. The platform tries again later. ${error.message}`)
    ),
    Effect.andThen(unfollow)
  )
  const supervision = yield* Effect.gen(function*() {
    let end: End | undefined
    while (end === undefined) end = yield* handle(yield* Queue.take(events))
    yield* Deferred.fail(
      started,
      new PoolError({
        reason: new PoolUnavailable({
          problem: `the pod ${name} ended before it ran: ${waitsFor.reason}`,
          hint: "See the events of its namespace: kubectl get events."
        })
      })
    )
    if (following !== undefined) yield* output.finish(following)
    yield* Deferred.succeed(ended, describe(end(sink.lastLines())))
  }).pipe(Effect.forkDetach)

  return {
    handle: {
      id: worker.worker,
      exit: Deferred.await(ended),
      drain: Effect.suspend(() => {
        asked.exit = true
        return ask(graceSeconds)
      }),
      kill,
      forget
    },
    started: Deferred.await(started).pipe(
      Effect.timeoutOrElse({
        duration: `${startSeconds} seconds`,
        orElse: () => Effect.fail(noCapacity(`the pod ${name} did not run within ${startSeconds} seconds (${waitsFor.reason})`))
      })
    ),
    close: Effect.suspend(() => Deferred.isDoneUnsafe(ended) ? Effect.void : kill).pipe(
      Effect.andThen(Effect.timeoutOption(Effect.interruptible(Deferred.await(ended)), KILL_WAIT)),
      Effect.asVoid
    ),
    forget,
    discard: Fiber.interrupt(supervision).pipe(
      Effect.andThen(Effect.suspend(() => following === undefined ? Effect.void : Fiber.interrupt(following))),
      Effect.andThen(unfollow)
    )
  }
})
