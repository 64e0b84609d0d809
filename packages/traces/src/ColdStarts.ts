/**
 * Finds the jobs that waited for the start of their worker.
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { WorkerStatus } from "@stint/queue/WorkerRegistry"

/** The number of workers that are remembered. A worker that was forgotten is compared with the registry once more. */
const MAX_WORKERS = 10_000

/** A worker that connects by itself is ready with its first call. Milliseconds. */
const SHORTEST_START = 5

/** Remembers which workers have taken a job. */
export class ColdStarts {
  readonly #known = new Set<string>()

  /** Whether the worker takes its first job, as far as this process knows. */
  isFirstTake(endpoint: EndpointId, worker: string): boolean {
    const name = `${endpoint}\n${worker}`
    if (this.#known.has(name)) return false
    const [oldest] = this.#known
    if (this.#known.size >= MAX_WORKERS && oldest !== undefined) this.#known.delete(oldest)
    this.#known.add(name)
    return true
  }

  /** When the platform started the worker, and when the worker first called. Undefined for a worker that the platform did not start. */
  timesOf(
    worker: Pick<WorkerStatus, "firstSeenAt" | "idleSince" | "results"> | undefined
  ): { readonly startedAt: number; readonly readyAt: number } | undefined {
    if (worker === undefined || worker.idleSince === null || worker.results > 0) return undefined
    return worker.idleSince - worker.firstSeenAt < SHORTEST_START
      ? undefined
      : { startedAt: worker.firstSeenAt, readyAt: worker.idleSince }
  }
}
