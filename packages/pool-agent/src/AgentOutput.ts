/**
 * Holds what the agent's workers print until the platform has accepted it.
 *
 * Lines are numbered for each worker. When a worker has {@link MAX_LINES} lines that the platform has not accepted, it waits, as with any slow sink
 * (`WorkerLog`).
 */
import { WorkerLog } from "@stint/pool/WorkerLog"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"

/** The maximum number of lines of a worker that wait for the platform. A line has at most 16,384 characters. */
const MAX_LINES = 2_000

interface Buffer {
  /** The number of the first line in `lines`. */
  from: number
  lines: Array<string>
  readonly room: Latch.Latch
}

export class AgentOutput extends Context.Service<AgentOutput, {
  readonly log: WorkerLog
  /** The worker's lines that the platform has not accepted. */
  readonly of: (worker: string) => { readonly from: number; readonly lines: ReadonlyArray<string> }
  /** The platform has accepted the lines below this number. */
  readonly taken: (worker: string, below: number) => void
  readonly remove: (worker: string) => void
  /** The number of lines that the platform has not accepted. */
  readonly waiting: () => number
  /** Waits until there is a new line. */
  readonly printed: Effect.Effect<void>
}>()("@stint/pool-agent/AgentOutput") {}

const make = Effect.sync(() => {
  const buffers = new Map<string, Buffer>()
  const printed = Latch.makeUnsafe()

  const bufferOf = (worker: string): Buffer => {
    const found = buffers.get(worker)
    if (found !== undefined) return found
    const created: Buffer = { from: 0, lines: [], room: Latch.makeUnsafe(true) }
    buffers.set(worker, created)
    return created
  }

  return AgentOutput.of({
    log: {
      write: ({ stream, text, worker }) => {
        const buffer = bufferOf(worker)
        const push = Effect.sync(() => {
          buffer.lines.push((stream === "stderr" ? "e" : "o") + text)
          if (buffer.lines.length >= MAX_LINES) buffer.room.closeUnsafe()
          printed.openUnsafe()
        })
        return Effect.andThen(buffer.room.await, push)
      }
    },
    of: (worker) => buffers.get(worker) ?? { from: 0, lines: [] },
    taken: (worker, below) => {
      const buffer = buffers.get(worker)
      if (buffer === undefined || below <= buffer.from) return
      buffer.lines = buffer.lines.slice(below - buffer.from)
      buffer.from = below
      buffer.room.openUnsafe()
    },
    remove: (worker) => void buffers.delete(worker),
    waiting: () => [...buffers.values()].reduce((sum, { lines }) => sum + lines.length, 0),
    printed: Effect.andThen(printed.await, Effect.sync(() => void printed.closeUnsafe()))
  })
})

export const layer: Layer.Layer<AgentOutput> = Layer.effect(AgentOutput, make)

/** The sink of the agent's pool. */
export const layerLog: Layer.Layer<never, never, AgentOutput> = Layer.effect(WorkerLog, Effect.map(AgentOutput, ({ log }) => log))
