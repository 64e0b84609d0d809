/**
 * Compares what workers reserve with what their machine has. Pure.
 */
import type { Reservation } from "./WorkerPool.ts"

/** What a machine has for its workers. */
export interface Capacity {
  readonly cpus: number
  readonly memoryBytes: number
  readonly gpus: number
}

/** A kind of resource. `number`: an amount as a number of its unit. */
interface Resource {
  readonly unit: string
  readonly number: (amount: number) => number
}

const GPUS: Resource = { unit: "GPUs", number: (amount) => amount }
const CPUS: Resource = { unit: "CPUs", number: (amount) => Math.round(amount * 100) / 100 }
const MEMORY: Resource = { unit: "GiB of memory", number: (amount) => Math.round(amount / 1024 ** 3 * 10) / 10 }

/** The number of GPUs that the worker occupies. */
export const gpusOf = ({ gpus }: Pick<Reservation, "gpus">, capacity: Pick<Capacity, "gpus">): number =>
  gpus === "all" ? capacity.gpus : gpus

/**
 * The first of an endpoint's own workers, without which another one would fit on the machine; empty if it would not fit even without all of them. `fits`
 * says whether it fits beside the rest.
 */
export const blockersOf = <W>(
  workers: ReadonlyArray<W>,
  isOwn: (worker: W) => boolean,
  fits: (rest: ReadonlyArray<W>) => boolean
): ReadonlyArray<W> => {
  const own = workers.filter(isOwn)
  for (let count = 1; count <= own.length; count++) {
    const leaving = own.slice(0, count)
    if (fits(workers.filter((worker) => !leaving.includes(worker)))) return leaving
  }
  return []
}

/** What is missing if `needed` is more than what is free, or even more than the total. */
const shortage = ({ number, unit }: Resource, needed: number, total: number, used: number): string | undefined => {
  if (needed > total) return `has ${number(total)} ${unit}, and a worker of this endpoint needs ${number(needed)}`
  return needed > total - used ? `has ${number(total - used)} of ${number(total)} ${unit} free` : undefined
}

/**
 * Which resource a machine lacks for another worker, as the end of a sentence that begins with its name; undefined if there is enough. `reserved`: the
 * reservations of its workers.
 */
export const shortageOf = (needs: Reservation, capacity: Capacity, reserved: ReadonlyArray<Reservation>): string | undefined => {
  const used = (amount: (one: Reservation) => number) => reserved.reduce((sum, one) => sum + amount(one), 0)
  // A worker that gets all GPUs needs at least one.
  const gpus = needs.gpus === "all" ? Math.max(1, capacity.gpus) : needs.gpus
  return shortage(GPUS, gpus, capacity.gpus, used((one) => gpusOf(one, capacity))) ??
    shortage(CPUS, needs.cpus, capacity.cpus, used((one) => one.cpus)) ??
    shortage(MEMORY, needs.memoryBytes, capacity.memoryBytes, used((one) => one.memoryBytes))
}
