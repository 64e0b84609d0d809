/**
 * The workers of an agent: carries out orders with the pool of its machine.
 *
 * ```
 *   order run --> starting --> running --> ended --order forget--> removed
 *                    |  failure                ^
 *                    +-------------------------+
 * ```
 *
 * Each worker id is started once, so a repeated order changes nothing.
 */
import type { AgentOrder, AgentStart, AgentStartFailure, AgentWorkerReport } from "@stint/contract/Agent"
import { MAX_REPORT_LINES } from "@stint/contract/Agent"
import type { ImagePullProgress } from "@stint/contract/ImagePull"
import { CodeTransfer } from "@stint/pool/CodeTransfer"
import { addressIn, withAddress } from "@stint/pool/PlatformAddress"
import { NoCapacity, PoolError, SpawnFailed } from "@stint/pool/PoolError"
import type { WorkerExit } from "@stint/pool/WorkerExit"
import {
  type OrphanedWorker,
  type PullListener,
  type Reservation,
  reservationOf,
  type WorkerHandle,
  WorkerPool
} from "@stint/pool/WorkerPool"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { AgentOutput } from "./AgentOutput.ts"
import type { PlatformLink } from "./PlatformLink.ts"
import { toMessage } from "./StartFailure.ts"

interface Worker {
  readonly id: AgentWorkerReport["id"]
  readonly endpoint: AgentWorkerReport["endpoint"]
  readonly scope: Scope.Closeable
  state: AgentWorkerReport["state"]
  handle: WorkerHandle | undefined
  /** Reads how far the pull of its image is; undefined before and after. */
  pull: (() => ImagePullProgress) | undefined
  failure: AgentStartFailure | undefined
  exit: WorkerExit | undefined
  cpuMs: number | undefined
  memoryBytes: number | undefined
  readonly reserved: Reservation | undefined
  /** The platform's request for it. */
  asked: "drain" | "kill" | undefined
  starting: Fiber.Fiber<void> | undefined
}

export interface AgentWorkers {
  /** Carries out the orders. `mayStart`: whether the lease, without which nothing may start, is still valid. */
  readonly obey: (orders: ReadonlyArray<AgentOrder>, mayStart: () => boolean) => Effect.Effect<void>
  /** `maximum`: the maximum size of all lines, as JSON, in bytes. `size`: their size. A single line may be larger than the maximum. */
  readonly report: (maximum: number) => { readonly workers: ReadonlyArray<AgentWorkerReport>; readonly size: number }
  /** Reads the CPU times. */
  readonly measure: Effect.Effect<void>
  /** The number of workers that have not ended. */
  readonly live: () => number
  /** The number of workers, including those whose end the platform does not know. */
  readonly all: () => number
  readonly killAll: Effect.Effect<void>
}

/** How long reading the CPU times may take. A container engine may not respond. */
const MEASURE_LIMIT = "1 second"
const MEASURE_CONCURRENCY = 16

/** `maximum`: the maximum number of workers. `changed` is called when the next report will differ. */
export const make = Effect.fnUntraced(function*(options: {
  readonly link: Pick<PlatformLink, "code">
  readonly address: string
  readonly maximum: number
  readonly changed: () => void
}) {
  const { address, changed, link, maximum } = options
  const pool = yield* WorkerPool
  const output = yield* AgentOutput
  const codes = Option.getOrUndefined(yield* Effect.serviceOption(CodeTransfer))
  const workers = new Map<string, Worker>()
  const forgetAll = Effect.suspend(() =>
    Effect.forEach([...workers.values()], ({ handle }) => handle?.forget ?? Effect.void, { discard: true })
  )
  // A separate scope, so that workers run until the finalizers that the caller adds later have ended. The platform learns from the agent's absence that
  // they have ended.
  const scope = yield* Effect.acquireRelease(
    Scope.make(),
    (scope, exit) => Effect.andThen(Scope.close(scope, exit), forgetAll)
  )
  let turn = 0

  const live = () => [...workers.values()].filter(({ state }) => state !== "ended").length

  const ended = (worker: Worker, how: Pick<Worker, "exit" | "failure">) => {
    worker.state = "ended"
    worker.exit = how.exit
    worker.failure = how.failure
    changed()
  }

  const notStarted = (worker: Worker, problem: string) =>
    Effect.sync(() =>
      ended(worker, { exit: undefined, failure: toMessage(new PoolError({ reason: new NoCapacity({ problem }) })) })
    )

  const run = (worker: Worker, begin: Effect.Effect<WorkerHandle, PoolError, Scope.Scope>) =>
    Effect.gen(function*() {
      const handle = yield* Scope.provide(begin, worker.scope)
      worker.handle = handle
      worker.state = "running"
      changed()
      if (worker.asked === "kill") yield* handle.kill
      else if (worker.asked === "drain") yield* handle.drain
      const exit = yield* handle.exit
      ended(worker, { exit, failure: undefined })
    }).pipe(
      Effect.catch((error) => Effect.sync(() => ended(worker, { exit: undefined, failure: toMessage(error) }))),
      Effect.catchCause((cause) => notStarted(worker, `its pool failed (${Cause.pretty(cause).split("\n")[0]})`)),
      Effect.ensuring(Scope.close(worker.scope, Exit.void)),
      // `catchCause` does not run when the fiber is interrupted.
      Effect.onInterrupt(() => notStarted(worker, "its start was cancelled"))
    )

  const add = Effect.fnUntraced(function*(
    { endpoint, id, reserved }: Pick<Worker, "endpoint" | "id"> & { readonly reserved?: Reservation | undefined },
    begin: Effect.Effect<WorkerHandle, PoolError, Scope.Scope>
  ) {
    const worker: Worker = {
      id,
      endpoint,
      scope: yield* Scope.fork(scope),
      state: "starting",
      handle: undefined,
      pull: undefined,
      failure: undefined,
      exit: undefined,
      cpuMs: undefined,
      memoryBytes: undefined,
      reserved,
      asked: undefined,
      starting: undefined
    }
    workers.set(id, worker)
    worker.starting = yield* Effect.forkIn(run(worker, begin), scope)
    changed()
  })

  /** Downloads a release's code if it is not stored here. */
  const fetchCode = Effect.fnUntraced(function*(hash: string, endpoint: string) {
    if (codes === undefined || (yield* codes.has(hash))) return
    const failed = (problem: string, hint: string) =>
      new PoolError({ reason: new SpawnFailed({ path: `The code of endpoint ${endpoint}`, problem, hint }) })
    const { files } = yield* Effect.mapError(link.code(hash), (error) => failed(error.problem.replace(/\.$/, ""), error.hint))
    const problem = yield* codes.write(hash, files)
    if (problem !== undefined) return yield* failed(problem, "Check the disk of this machine, and deploy the endpoint again.")
  }, Semaphore.makeUnsafe(1).withPermits(1))

  const begin = Effect.fnUntraced(
    function*(id: Worker["id"], { code, endpoint, variables }: AgentStart, mayStart: () => boolean) {
      const refuse = (problem: string) => new PoolError({ reason: new NoCapacity({ problem }) })
      // The list already contains this worker.
      if (live() > maximum) return yield* refuse(`it runs ${maximum} of at most ${maximum} workers`)
      if (code !== undefined) yield* fetchCode(code, endpoint.id)
      // The platform may have given up on the worker, and started another one elsewhere.
      if (!mayStart()) return yield* refuse("its connection to the platform was lost before the start")
      const from = addressIn(variables)
      const env = Object.fromEntries(
        Object.entries(endpoint.env).flatMap(([name, value]) => typeof value === "string" ? [[name, value] as const] : [])
      )
      return yield* pool.start({
        endpoint: { ...endpoint, env },
        worker: id,
        variables: from === undefined ? variables : withAddress(variables, from.origin, address),
        pull: pullListenerOf(id),
        ...(code === undefined ? {} : { code })
      })
    }
  )

  const pullListenerOf = (id: string): PullListener => {
    const set = (pull: Worker["pull"]) => {
      const worker = workers.get(id)
      if (worker === undefined) return
      worker.pull = pull
      changed()
    }
    return { began: set, ended: () => set(undefined) }
  }

  /** The platform redacts the output of an adopted worker, because only it knows the worker's key. */
  const adopt = (orphan: OrphanedWorker) => add(orphan, orphan.adopt({}))

  const ask = Effect.fnUntraced(function*(worker: Worker, wish: "drain" | "kill") {
    if (worker.state === "ended" || worker.asked === wish || worker.asked === "kill") return
    worker.asked = wish
    // None of these may delay the next report.
    if (worker.handle !== undefined) yield* Effect.forkIn(wish === "kill" ? worker.handle.kill : worker.handle.drain, scope)
    else if (worker.starting !== undefined) yield* Effect.forkIn(Fiber.interrupt(worker.starting), scope)
  })

  const obeyOne = Effect.fnUntraced(function*({ id, start, taken, wish }: AgentOrder, mayStart: () => boolean) {
    output.taken(id, taken)
    const worker = workers.get(id)
    if (worker === undefined) {
      if (wish !== "run" || start === undefined) return
      const { id: endpoint, source } = start.endpoint
      return yield* add({ id, endpoint, reserved: reservationOf(source) }, begin(id, start, mayStart))
    }
    if (wish === "drain" || wish === "kill") return yield* ask(worker, wish)
    if (wish === "forget") {
      if (worker.state !== "ended") return yield* ask(worker, "kill")
      yield* worker.handle?.forget ?? Effect.void
      workers.delete(id)
      output.remove(id)
      changed()
    }
  })

  yield* Effect.forEach(pool.orphans, adopt, { discard: true })

  const report: AgentWorkers["report"] = (maximum) => {
    let lines = MAX_REPORT_LINES
    let size = 0
    const all = [...workers.values()]
    // Each report begins with a different worker, so that a worker that prints a lot does not delay the others.
    turn = all.length === 0 ? 0 : (turn + 1) % all.length
    const reports = [...all.slice(turn), ...all.slice(0, turn)].map((worker): AgentWorkerReport => {
      const kept = output.of(worker.id)
      const sent: Array<string> = []
      for (const line of kept.lines) {
        const length = Buffer.byteLength(JSON.stringify(line)) + 1
        if (lines === 0 || (size > 0 && size + length > maximum)) break
        lines -= 1
        size += length
        sent.push(line)
      }
      const { cpuMs, endpoint, exit, failure, id, memoryBytes, pull, reserved, state } = worker
      return {
        id,
        endpoint,
        state,
        ...(pull === undefined ? {} : { pull: pull() }),
        ...(failure === undefined ? {} : { failure }),
        ...(exit === undefined ? {} : { exit: exitOf(exit) }),
        ...(cpuMs === undefined ? {} : { cpuMs }),
        ...(memoryBytes === undefined ? {} : { memoryBytes }),
        ...(reserved === undefined ? {} : { reserved }),
        from: kept.from,
        lines: sent,
        printed: kept.from + kept.lines.length
      }
    })
    return { workers: reports, size }
  }

  const result: AgentWorkers = {
    obey: (orders, mayStart) => Effect.forEach(orders, (order) => obeyOne(order, mayStart), { discard: true }),
    report,
    measure: Effect.suspend(() =>
      Effect.forEach([...workers.values()], (worker) =>
        worker.state !== "running" || worker.handle?.resources === undefined
          ? Effect.void
          : Effect.map(worker.handle.resources, (found) => {
            worker.cpuMs = found?.cpuMillis ?? worker.cpuMs
            worker.memoryBytes = found?.memoryBytes
          }), {
        concurrency: MEASURE_CONCURRENCY,
        discard: true
      })
    ).pipe(Effect.timeoutOption(MEASURE_LIMIT), Effect.asVoid),
    live,
    all: () => workers.size,
    killAll: Effect.suspend(() => Effect.forEach([...workers.values()], (worker) => ask(worker, "kill"), { discard: true }))
  }
  return result
})

const exitOf = (exit: WorkerExit): NonNullable<AgentWorkerReport["exit"]> => {
  switch (exit._tag) {
    case "Exited":
      return { _tag: "Exited", code: exit.code }
    case "Killed":
      return { _tag: "Killed", signal: exit.signal, outOfMemory: exit.outOfMemory }
    case "Lost":
      return { _tag: "Lost", reason: exit.reason.slice(0, 4_096) }
  }
}
