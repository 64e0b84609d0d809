/**
 * Supervises the container of one worker, from its start or adoption until its removal.
 *
 * ```
 *   running --ended--> last lines read --> removed --> exit: Exited | Killed
 *      |  removed by another program ----------------> exit: Lost
 *      +-- engine does not respond: counts as running; asked again until the engine responds
 * ```
 *
 * The state of a container is unknown while its engine does not respond: Podman's containers keep running without the service, and
 * their workers keep sending heartbeats. A worker counts as ended only when the engine reports its end, so that no second worker is
 * started in its place.
 */
import type { EndpointId, WorkerId } from "@stint/contract/Ids"
import { addressIn } from "@stint/pool/PlatformAddress"
import type { PoolError } from "@stint/pool/PoolError"
import { signalOf, type WorkerExit } from "@stint/pool/WorkerExit"
import type { WorkerLog } from "@stint/pool/WorkerLog"
import * as WorkerOutput from "@stint/pool/WorkerOutput"
import type { StartRequest, WorkerHandle } from "@stint/pool/WorkerPool"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as ContainerOutput from "./ContainerOutput.ts"
import type { ContainerRecords } from "./ContainerRecords.ts"
import type { ContainerState, Engine } from "./Engine.ts"
import { type EngineError, isNotFound } from "./EngineError.ts"
import { outOfMemory } from "./KernelLog.ts"
import * as PlatformSocket from "./PlatformSocket.ts"

/** How soon to retry after the engine did not respond. */
const RETRY = "500 millis"

/** How soon to ask again when the wait has ended and the engine still reports the container as running. */
const SETTLE = "50 millis"

/** How long to wait for a killed container to end and be removed. */
const KILL_WAIT = "15 seconds"

/** How long removing an ended container may delay the report of its exit. */
const REMOVE_LIMIT = "30 seconds"

/** The container's name. Worker ids are unique, so the engine rejects a second container for one worker. */
export const nameOf = (worker: string): string => `stint-${worker}`

/** A worker in a container. */
export interface Worker {
  readonly endpoint: EndpointId
  readonly worker: WorkerId
  readonly variables: StartRequest["variables"]
  readonly mask: StartRequest["mask"]
  /** The port at which it calls the platform in its own network; null in the host's network. */
  readonly port: number | null
}

/** How a container ended. */
type End =
  | { readonly _tag: "Ended"; readonly container: ContainerState }
  | { readonly _tag: "Removed" }

const NOT_ENDED = new Set(["configured", "created", "initialized", "paused", "removing", "restarting", "stopping"])

/** Whether the container ran and has ended. */
const hasEnded = ({ Running, Status }: ContainerState["State"]): boolean => !Running && !NOT_ENDED.has(Status)

const exitOf = ({ Id, State: { ExitCode, OOMKilled } }: ContainerState, log: ReadonlyArray<string>): WorkerExit => {
  const signal = signalOf(ExitCode)
  return signal === undefined
    ? { _tag: "Exited", code: ExitCode, log }
    : { _tag: "Killed", signal, outOfMemory: signal === "SIGKILL" && (OOMKilled || outOfMemory(Id)), log }
}

export interface WorkerContainer {
  readonly handle: WorkerHandle
  /** Kills the container and waits for its removal, within a limit. */
  readonly close: Effect.Effect<void>
}

/** The parts of the pool that containers share. */
export interface Dependencies {
  readonly engine: Engine
  readonly records: ContainerRecords
  readonly log: WorkerLog
}

/** Opens the platform's door in a running container. Returns whether the container needs no further attempt. */
const openDoor = Effect.fnUntraced(function*({ engine }: Dependencies, { port, variables, worker }: Worker) {
  const target = addressIn(variables)
  if (port === null || target === undefined) return true
  const seen = yield* Effect.option(engine.inspect(nameOf(worker)))
  if (seen._tag === "None") return false
  if (!seen.value.State.Running) return true
  const host = target.hostname.replace(/^\[|\]$/g, "")
  yield* PlatformSocket.open(seen.value.State.Pid, port, { host, port: Number(target.port || 80) })
  return true
})

/**
 * Supervises a started container. Fails when the container cannot reach the platform; the caller then removes the container.
 * `describe` maps the exit that it observes to the one that is reported.
 */
export const attach = Effect.fnUntraced(function*(
  dependencies: Dependencies,
  worker: Worker,
  describe: (exit: WorkerExit) => WorkerExit = (exit) => exit
): Effect.fn.Return<WorkerContainer, PoolError> {
  const { engine, log, records } = dependencies
  const name = nameOf(worker.worker)
  const doorScope = yield* Scope.make()
  let isKilled = false
  let hasDoor = false

  const signal = (kind: "SIGKILL" | "SIGTERM") =>
    engine.signal(name, kind).pipe(
      // 404 and 409: it no longer exists, or no longer runs.
      Effect.retry({
        while: (error: EngineError) => error._tag === "EngineRefused" && error.status >= 500,
        times: 10,
        schedule: Schedule.spaced(RETRY)
      }),
      Effect.ignore
    )

  const kill = Effect.suspend(() => {
    isKilled = true
    return signal("SIGKILL")
  })

  const enter = Scope.provide(openDoor(dependencies, worker), doorScope)

  const awaitEnd = Effect.gen(function*() {
    let isAnswering = true
    while (true) {
      const seen = yield* Effect.result(engine.inspect(name))
      if (seen._tag === "Failure") {
        if (isNotFound(seen.failure)) return { _tag: "Removed" } satisfies End
        if (isAnswering) {
          isAnswering = false
          yield* Effect.logWarning(
            `The state of worker ${worker.worker} of endpoint ${worker.endpoint} is unknown. ${seen.failure.message} The worker counts as running until the engine answers.`
          )
        }
        yield* Effect.sleep(RETRY)
        continue
      }
      if (!isAnswering) {
        isAnswering = true
        yield* Effect.logInfo(`The container engine answers again about worker ${worker.worker} of endpoint ${worker.endpoint}.`)
      }
      const { State } = seen.success
      if (hasEnded(State)) return { _tag: "Ended", container: seen.success } satisfies End
      if (isKilled) yield* signal("SIGKILL")
      if (!hasDoor) {
        hasDoor = yield* Effect.catch(enter, (error) =>
          Effect.as(
            Effect.logWarning(
              `Worker ${worker.worker} of endpoint ${worker.endpoint} does not reach the platform. ${error.message}`
            ),
            true
          ))
      }
      const waited = yield* Effect.result(engine.wait(name))
      yield* Effect.sleep(waited._tag === "Success" ? SETTLE : RETRY)
    }
  })

  hasDoor = yield* Effect.catch(enter, (error) =>
    Effect.flatMap(Effect.option(engine.inspect(name)), (seen) =>
      // A container that has ended needs no platform. Its exit is the better explanation.
      seen._tag === "Some" && hasEnded(seen.value.State)
        ? Effect.succeed(true)
        : Effect.andThen(Scope.close(doorScope, Exit.void), Effect.fail(error))))

  const position = records.openPosition(worker.worker)
  const sink = WorkerOutput.lineSink(log, worker)
  const output = ContainerOutput.make(engine, name, sink, position.position, position.write)
  const following = yield* Effect.forkDetach(output.follow)
  const ended = yield* Deferred.make<WorkerExit>()

  let isRemoved = false
  const remove = engine.remove(name).pipe(
    Effect.catch((error) => isNotFound(error) ? Effect.void : Effect.fail(error)),
    Effect.timeout(REMOVE_LIMIT),
    Effect.andThen(Effect.sync(() => {
      isRemoved = true
    })),
    Effect.catch((error) =>
      Effect.logWarning(
        `The ended container ${name} is not removed yet. The platform tries again when it starts. ${error.message}`
      )
    )
  )

  yield* awaitEnd.pipe(
    Effect.tap(() => output.finish(following)),
    Effect.map((end): WorkerExit =>
      end._tag === "Ended"
        ? describe(exitOf(end.container, sink.lastLines()))
        : { _tag: "Lost", reason: `another program removed its container ${name}.`, log: sink.lastLines() }
    ),
    Effect.tap(() => Effect.sync(position.close)),
    Effect.tap(() => Scope.close(doorScope, Exit.void)),
    Effect.tap(() => remove),
    Effect.flatMap((exit) => Deferred.succeed(ended, exit)),
    Effect.forkDetach
  )

  return {
    handle: {
      id: worker.worker,
      exit: Deferred.await(ended),
      drain: signal("SIGTERM"),
      kill,
      // The next platform removes a container that could not be removed: its record stays.
      forget: Effect.sync(() => {
        if (isRemoved) records.remove(worker.worker)
      }),
      resources: Effect.orElseSucceed(engine.resources(name), () => undefined)
    },
    close: Effect.andThen(kill, Effect.asVoid(Effect.timeoutOption(Effect.interruptible(Deferred.await(ended)), KILL_WAIT)))
  }
})
