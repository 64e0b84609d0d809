/**
 * The reservations of the workers on one machine. Assigns GPUs, and lets endpoints that wait for room go first in the order in which they began to wait.
 *
 * ```
 *   asked --it fits, and no other endpoint has its turn--> reserved --released--> free
 *     |                                                                    |
 *     +--refused: waits <--------------------------------------------------+ for TURN_MILLIS, the endpoint that has waited longest
 *                                                                            and fits goes first
 * ```
 *
 * Without turns, the endpoint that happens to ask first after each exit would get the machine every time.
 */
import { blockersOf, type Capacity, gpusOf, shortageOf } from "./Capacity.ts"
import type { Obstacle, Reservation } from "./WorkerPool.ts"

/** What a machine has for its workers. */
export interface MachineCapacity extends Omit<Capacity, "gpus"> {
  /** The GPUs, as in `CUDA_VISIBLE_DEVICES`: numbers or UUIDs. */
  readonly gpuIds: ReadonlyArray<string>
}

/** A worker with a reservation. */
export interface Holder {
  readonly worker: string
  readonly endpoint: string
  readonly needs: Reservation
}

interface Held extends Holder {
  readonly gpuIds: ReadonlyArray<string>
}

/** How long free capacity is kept for an endpoint that waits for it. Its next attempt follows at once, so this is generous. Milliseconds. */
export const TURN_MILLIS = 2_000

export interface MachineReservations {
  /** Why the worker gets no reservation now; undefined if it gets one. An endpoint that is refused waits for its turn. */
  readonly obstacleOf: (endpoint: string, needs: Reservation) => Obstacle | undefined
  /**
   * Reserves without a check, and returns the assigned GPUs. `gpuIds`: those that a worker of an earlier platform already has; absent: free ones are
   * chosen.
   */
  readonly reserve: (holder: Holder, gpuIds?: ReadonlyArray<string>) => ReadonlyArray<string>
  /** Releases the reservation. Returns whether an endpoint waits for room. */
  readonly release: (worker: string) => boolean
}

/** `now`: monotonic time, in milliseconds. */
export const make = ({ gpuIds, ...machine }: MachineCapacity, now: () => number): MachineReservations => {
  const capacity: Capacity = { ...machine, gpus: gpuIds.length }
  const held = new Map<string, Held>()
  /** The endpoints that were refused, with what they asked for; the first has waited longest. */
  const waiting = new Map<string, Reservation>()
  let releasedAt = -Infinity

  const all = () => [...held.values()].map(({ needs }) => needs)
  const freeGpus = () => {
    const taken = new Set([...held.values()].flatMap(({ gpuIds }) => gpuIds))
    return gpuIds.filter((id) => !taken.has(id))
  }

  const blockers = (endpoint: string, needs: Reservation): ReadonlyArray<string> =>
    blockersOf(
      [...held.values()],
      (one) => one.endpoint === endpoint,
      (rest) => shortageOf(needs, capacity, rest.map((one) => one.needs)) === undefined
    ).map(({ worker }) => worker)

  /** The endpoint that goes first although `needs` would fit. */
  const nextInTurn = (endpoint: string, needs: Reservation): string | undefined => {
    const isOver = now() - releasedAt >= TURN_MILLIS
    for (const [first, wanted] of [...waiting]) {
      if (first === endpoint) return undefined
      if (shortageOf(wanted, capacity, all()) !== undefined) continue
      // It did not ask again, so it no longer needs the room.
      if (isOver) waiting.delete(first)
      else if (shortageOf(needs, capacity, [...all(), wanted]) !== undefined) return first
    }
    return undefined
  }

  const refuse = (endpoint: string, needs: Reservation, obstacle: Obstacle): Obstacle => {
    waiting.set(endpoint, needs)
    return obstacle
  }

  return {
    obstacleOf: (endpoint, needs) => {
      const shortage = shortageOf(needs, capacity, all())
      if (shortage !== undefined) {
        return refuse(endpoint, needs, { problem: shortage, blockedBy: blockers(endpoint, needs) })
      }
      const first = nextInTurn(endpoint, needs)
      return first === undefined
        ? undefined
        : refuse(endpoint, needs, {
          problem: `keeps its free capacity for endpoint ${first}, which has waited longer`,
          blockedBy: []
        })
    },
    reserve: (holder, assigned) => {
      const chosen = assigned ?? freeGpus().slice(0, gpusOf(holder.needs, capacity))
      waiting.delete(holder.endpoint)
      held.set(holder.worker, { ...holder, gpuIds: chosen })
      return chosen
    },
    release: (worker) => {
      if (held.delete(worker) && waiting.size > 0) releasedAt = now()
      return waiting.size > 0
    }
  }
}
