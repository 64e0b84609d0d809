/**
 * A pool whose workers are fibers in this process. It is used in tests and is the reference model of a pool.
 *
 * A worker's program is an Effect that returns an exit code. It receives its environment, output and signals as {@link WorkerContext}. Tests
 * crash and freeze workers with {@link Faults}.
 */
import type { EndpointSource } from "@stint/contract/Endpoint"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as LogTail from "./LogTail.ts"
import { type NoCapacity, PoolError, type SpawnFailed, Unsupported } from "./PoolError.ts"
import type { WorkerExit } from "./WorkerExit.ts"
import { maskOf, WorkerLog } from "./WorkerLog.ts"
import { type StartRequest, WorkerPool } from "./WorkerPool.ts"

/** The interface through which a worker's program acts as if it were a process. */
export interface WorkerContext extends StartRequest {
  /** Prints a line. */
  readonly print: (line: string) => Effect.Effect<void>
  /** Completes when the pool requests that the worker exit. A program that does not wait for this effect ignores the request. */
  readonly exitRequested: Effect.Effect<void>
  /** Waits while the worker is frozen. Programs run it before each step. */
  readonly awaitThawed: Effect.Effect<void>
  /** Ends the worker as if by a signal. */
  readonly signal: (signal: string) => Effect.Effect<never>
}

/** A running worker. */
export interface RunningWorker extends StartRequest {
  readonly exitRequested: boolean
  readonly frozen: boolean
}

/** Fault injection. Calling a function for a worker that is not running is a defect. */
export class Faults extends Context.Service<Faults, {
  /** Running workers, oldest first. */
  readonly running: Effect.Effect<ReadonlyArray<RunningWorker>>
  /** Total number of started workers. */
  readonly started: Effect.Effect<number>
  /** Crashes a worker with an exit code or signal. */
  readonly crash: (worker: string, how: { readonly code: number } | { readonly signal: string }) => Effect.Effect<void>
  /** Suspends the worker. A suspended worker does not respond to exit requests. */
  readonly freeze: (worker: string) => Effect.Effect<void>
  readonly thaw: (worker: string) => Effect.Effect<void>
  /** Makes the next starts fail with this reason. */
  readonly failNextStarts: (count: number, reason: SpawnFailed | NoCapacity) => Effect.Effect<void>
}>()("@stint/pool/MemoryWorkerPool/Faults") {}

interface Running {
  readonly request: StartRequest
  exitRequested: boolean
  frozen: boolean
  readonly thawed: Latch.Latch
  readonly heard: Deferred.Deferred<void>
  readonly finish: (how: WithoutLog<WorkerExit>) => Effect.Effect<void>
}

type WithoutLog<E> = E extends WorkerExit ? Omit<E, "log"> : never

const killed = (signal: string): WithoutLog<WorkerExit> => ({ _tag: "Killed", signal, outOfMemory: false })

/**
 * A pool whose workers run `program`. A defect in the program ends its worker with exit code 1 and prints the error, just as an uncaught
 * error ends a process.
 */
export const layer = <R>(
  program: (worker: WorkerContext) => Effect.Effect<number, never, R>,
  supports: ReadonlyArray<EndpointSource["type"]> = ["handler", "command"]
): Layer.Layer<WorkerPool | Faults, never, R> =>
  Layer.effectContext(Effect.gen(function*() {
    const outside = yield* Effect.context<R>()
    const log = yield* WorkerLog
    const workers = new Map<string, Running>()
    let started = 0
    let failing: { count: number; readonly reason: SpawnFailed | NoCapacity } | undefined

    const start: WorkerPool["Service"]["start"] = Effect.fnUntraced(function*(request) {
      if (!supports.includes(request.endpoint.source.type)) {
        return yield* new PoolError({ reason: new Unsupported({ source: request.endpoint.source.type }) })
      }
      if (failing !== undefined && failing.count > 0) {
        failing.count -= 1
        return yield* new PoolError({ reason: failing.reason })
      }
      started += 1
      const ended = yield* Deferred.make<WorkerExit>()
      const tail = LogTail.make()
      const heard = yield* Deferred.make<void>()
      const thawed = yield* Latch.make(true)
      const mask = maskOf(request.variables, request.mask)
      const print = (line: string) =>
        Effect.suspend(() => {
          const text = mask(line)
          tail.add(text)
          return log.write({ endpoint: request.endpoint.id, worker: request.worker, stream: "stdout", text })
        })
      const finish = (how: WithoutLog<WorkerExit>) =>
        Effect.suspend(() => {
          workers.delete(request.worker)
          return Effect.asVoid(Deferred.succeed(ended, { ...how, log: tail.lines() }))
        })
      const worker: Running = { request, exitRequested: false, frozen: false, thawed, heard, finish }
      workers.set(request.worker, worker)
      const context: WorkerContext = {
        ...request,
        print,
        exitRequested: Effect.andThen(Deferred.await(heard), thawed.await),
        awaitThawed: thawed.await,
        signal: (signal) => Effect.andThen(finish(killed(signal)), Effect.never)
      }
      const fiber = yield* program(context).pipe(
        Effect.provideContext(outside),
        Effect.onExit((exit) => {
          if (Exit.isSuccess(exit)) return finish({ _tag: "Exited", code: exit.value })
          if (Cause.hasInterruptsOnly(exit.cause)) return Effect.void
          return Effect.andThen(
            Effect.forEach(Cause.pretty(exit.cause).split("\n"), print, { discard: true }),
            finish({ _tag: "Exited", code: 1 })
          )
        }),
        Effect.forkDetach
      )
      yield* Effect.forkDetach(Effect.andThen(Deferred.await(ended), Fiber.interrupt(fiber)))
      const kill = finish(killed("SIGKILL"))
      yield* Effect.addFinalizer(() => kill)
      return {
        id: request.worker,
        exit: Deferred.await(ended),
        drain: Effect.suspend(() => {
          worker.exitRequested = true
          return Effect.asVoid(Deferred.succeed(heard, undefined))
        }),
        kill
      }
    })

    const withWorker = (id: string, act: (worker: Running) => Effect.Effect<void>) =>
      Effect.suspend(() => {
        const worker = workers.get(id)
        return worker === undefined ? Effect.die(new Error(`no worker ${id} runs in the memory pool`)) : act(worker)
      })

    return Context.make(WorkerPool, WorkerPool.of({ supports, prepare: () => Effect.void, start, orphans: [] })).pipe(
      Context.add(
        Faults,
        Faults.of({
          running: Effect.sync(() =>
            [...workers.values()].map(({ exitRequested, frozen, request }) => ({ ...request, exitRequested, frozen }))
          ),
          started: Effect.sync(() => started),
          crash: (id, how) =>
            withWorker(id, (worker) => worker.finish("code" in how ? { _tag: "Exited", code: how.code } : killed(how.signal))),
          freeze: (id) =>
            withWorker(id, (worker) => {
              worker.frozen = true
              return Effect.asVoid(worker.thawed.close)
            }),
          thaw: (id) =>
            withWorker(id, (worker) => {
              worker.frozen = false
              return Effect.asVoid(worker.thawed.open)
            }),
          failNextStarts: (count, reason) =>
            Effect.sync(() => {
              failing = { count, reason }
            })
        })
      )
    )
  }))
