/**
 * One worker of an agent, as the platform sees it.
 *
 * ```
 *   ordered --report: running--> running --report: exit, all lines taken--> ended --its jobs are back in the queue--> forgotten
 *      |                            |  the agent's lease ends: Lost, mayRun
 *      +-- report: failure --> failed
 * ```
 *
 * The agent numbers the lines. Each worker has its own fiber, which writes the lines that the platform has accepted, so that a slow sink slows down
 * only this worker.
 */
import type { AgentOrder, AgentStart, AgentWorkerReport } from "@stint/contract/Agent"
import type { EndpointId, WorkerId } from "@stint/contract/Ids"
import type { ImagePullProgress } from "@stint/contract/ImagePull"
import { NoCapacity, PoolError } from "@stint/pool/PoolError"
import type { WorkerExit } from "@stint/pool/WorkerExit"
import type { WorkerLine, WorkerLog } from "@stint/pool/WorkerLog"
import { lineSink, MAX_LINE } from "@stint/pool/WorkerOutput"
import type { StartRequest, WorkerHandle } from "@stint/pool/WorkerPool"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import type * as Scope from "effect/Scope"
import type { Needs } from "./Placement.ts"
import { toError } from "./StartFailure.ts"

/** How many lines may wait for the sink. The agent keeps the others. */
const MAX_PENDING = 1_000

/** The input of a start or an adoption. */
export interface Owner {
  readonly variables: StartRequest["variables"]
  readonly mask?: StartRequest["mask"]
  readonly pull?: StartRequest["pull"]
}

type WithoutLog<E> = E extends WorkerExit ? Omit<E, "log"> : never

export interface RemoteWorker {
  readonly id: WorkerId
  readonly endpoint: EndpointId
  readonly needs: Needs
  /** Completes when the worker runs. */
  readonly started: Effect.Effect<void, PoolError>
  readonly handle: WorkerHandle
  /** The order for the agent. */
  readonly order: () => AgentOrder
  /** The hash of the frozen code that the agent needs to start it; undefined once it runs. */
  readonly code: () => string | undefined
  readonly state: () => "starting" | "running" | "draining" | "ending"
  /** Applies what a report says. `run`: the agent's process. */
  readonly apply: (report: AgentWorkerReport, run: string) => void
  /** The latest report does not contain the worker. Returns true if nothing is left to do for the worker. */
  readonly absent: (agent: string) => boolean
  /** Whether its start failed because the agent's pool has no room. Its end then frees no slot. */
  readonly lacksRoom: () => boolean
  /** The agent's lease has ended. */
  readonly lose: (reason: string) => void
  /** Starts writing the worker's lines. Call it once. */
  readonly attach: (owner: Owner) => Effect.Effect<void>
}

/** Agents do not send lines above the maximum. A copy of the beginning, because a slice would keep the whole line in memory. */
const textOf = (line: string): string =>
  line.length <= MAX_LINE + 1 ? line.slice(1) : Buffer.from(line.slice(1, MAX_LINE + 1)).toString()

/** `changed` is called when the order has changed. `start` is undefined for a worker that the agent already has. */
export const make = (options: {
  readonly agent: string
  readonly id: WorkerId
  readonly endpoint: EndpointId
  readonly needs: Needs
  readonly start: AgentStart | undefined
  readonly log: WorkerLog
  readonly scope: Scope.Scope
  readonly changed: () => void
}): RemoteWorker => {
  const { agent, changed, endpoint, id } = options
  const started = Deferred.makeUnsafe<void, PoolError>()
  const ended = Deferred.makeUnsafe<WorkerExit>()
  const pending: Array<Pick<WorkerLine, "stream" | "text">> = []
  const lines = Latch.makeUnsafe()
  let start = options.start
  let wish: "run" | "drain" | "kill" = "run"
  let run: string | undefined
  let taken = 0
  let cpuMs: number | undefined
  let memoryBytes: number | undefined
  /** The pull that the latest report contained. */
  let pull: ImagePullProgress | undefined
  let listener: StartRequest["pull"]
  let isAttached = false
  /** Whether the agent's latest report contained it. */
  let isKnown = start === undefined
  /** Set once no more lines can arrive. */
  let exit: WithoutLog<WorkerExit> | undefined
  /** Whether the agent may forget it: it never ran, or its exit has been processed. */
  let isForgotten = false
  let hasFailed = false
  let lacksRoom = false

  /** The pull ends, for the platform, when a report no longer contains it. */
  const applyPull = (now: ImagePullProgress | undefined) => {
    const before = pull
    pull = now
    if (before === undefined && now !== undefined) listener?.began(() => pull ?? now)
    if (before !== undefined && now === undefined) listener?.ended()
  }

  const finish = (how: WithoutLog<WorkerExit>) => {
    if (exit !== undefined) return
    exit = how
    applyPull(undefined)
    start = undefined
    Deferred.doneUnsafe(started, Effect.void)
    lines.openUnsafe()
    changed()
  }

  const fail = (error: PoolError) => {
    hasFailed = true
    isForgotten = true
    start = undefined
    Deferred.doneUnsafe(started, Effect.fail(error))
    finish({ _tag: "Lost", reason: error.message })
  }

  const request = (next: "drain" | "kill") =>
    Effect.sync(() => {
      if (wish === "kill" || wish === next || exit !== undefined) return
      wish = next
      changed()
    })

  const accept = ({ from, lines: arrived }: AgentWorkerReport) => {
    for (const [index, line] of arrived.entries()) {
      const number = from + index
      if (number < taken) continue
      if (pending.length >= MAX_PENDING) return
      pending.push({ stream: line.startsWith("e") ? "stderr" : "stdout", text: textOf(line) })
      taken = number + 1
    }
    lines.openUnsafe()
  }

  return {
    id,
    endpoint,
    needs: options.needs,
    started: Deferred.await(started),
    handle: {
      id,
      exit: Deferred.await(ended),
      drain: request("drain"),
      kill: request("kill"),
      forget: Effect.sync(() => {
        isForgotten = true
        changed()
      }),
      resources: Effect.sync(() => ({ cpuMillis: cpuMs, memoryBytes }))
    },
    order: () => ({
      id,
      wish: exit !== undefined && isForgotten ? "forget" : wish,
      taken,
      ...(start === undefined || isKnown || wish !== "run" ? {} : { start })
    }),
    code: () => start?.code,
    state: () =>
      exit !== undefined || wish === "kill"
        ? "ending"
        : start !== undefined
        ? "starting"
        : wish === "drain"
        ? "draining"
        : "running",
    apply: (report, by) => {
      isKnown = true
      if (exit !== undefined) return
      if (run !== by) {
        run = by
        taken = report.from
      }
      if (isAttached) accept(report)
      applyPull(report.state === "starting" ? report.pull : undefined)
      if (report.cpuMs !== undefined) cpuMs = report.cpuMs
      memoryBytes = report.memoryBytes
      if (report.failure !== undefined) {
        lacksRoom = report.failure.reason === "NoCapacity" && wish === "run"
        return fail(toError(agent, report.failure))
      }
      if (report.state === "starting") return
      start = undefined
      Deferred.doneUnsafe(started, Effect.void)
      if (report.exit !== undefined && isAttached && taken >= report.printed) finish(report.exit)
    },
    absent: (name) => {
      isKnown = false
      if (exit !== undefined) return true
      // No report has confirmed the order yet.
      if (start !== undefined && wish === "run") return false
      if (start !== undefined) fail(new PoolError({ reason: new NoCapacity({ problem: `agent ${name} had not started it` }) }))
      else finish({ _tag: "Lost", reason: `agent ${name} no longer has it.` })
      return true
    },
    lacksRoom: () => lacksRoom,
    lose: (reason) => {
      // An agent that has reported the worker may continue to start it.
      if (start === undefined || isKnown || hasFailed) return finish({ _tag: "Lost", reason, mayRun: true })
      fail(new PoolError({ reason: new NoCapacity({ problem: reason.replace(/\.$/, "") }) }))
    },
    attach: Effect.fnUntraced(function*({ mask, pull: to, variables }) {
      isAttached = true
      listener = to
      const sink = lineSink(options.log, { endpoint, worker: id, variables, mask })
      const write = Effect.gen(function*() {
        while (true) {
          const next = pending.shift()
          if (next !== undefined) yield* sink.write(next.stream, next.text)
          else if (exit !== undefined) return void Deferred.doneUnsafe(ended, Effect.succeed({ ...exit, log: sink.lastLines() }))
          else {
            lines.closeUnsafe()
            yield* lines.await
          }
        }
      })
      yield* Effect.forkIn(write, options.scope)
    })
  }
}
