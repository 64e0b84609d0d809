/**
 * Finds the jobs that waited for their worker to start, and the parts of that start.
 *
 * ```
 *   requested --pull--> has its image --create--> process exists --start--> first call --prepare--> asks for a job
 *                                                                       setup begins --setup--> asks for a job
 * ```
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { WorkerStart } from "@stint/queue/WorkerRegistry"

/** The number of workers that are remembered. */
const MAX_WORKERS = 10_000

/** A part of a start. Milliseconds since 1970. */
export interface StartPart {
  readonly name: string
  readonly start: number
  readonly end: number
}

/** Remembers which workers have taken a job. */
export class FirstTakes {
  readonly #known = new Set<string>()

  /** Whether this is the worker's first job, as far as this process knows. */
  isFirst(endpoint: EndpointId, worker: string): boolean {
    const name = `${endpoint}\n${worker}`
    if (this.#known.has(name)) return false
    const [oldest] = this.#known
    if (this.#known.size >= MAX_WORKERS && oldest !== undefined) this.#known.delete(oldest)
    this.#known.add(name)
    return true
  }
}

/** The parts of a start within a wait, in order. None when the worker was ready before the wait began. */
export const startParts = (
  { calledAt, createdAt, pulledAt, readyAt, requestedAt, setupAt }: Readonly<WorkerStart>,
  wait: { readonly start: number; readonly end: number }
): ReadonlyArray<StartPart> => {
  const parts: Array<StartPart> = []
  let from = Math.max(wait.start, requestedAt)
  const last = setupAt === undefined
    ? [["prepare", readyAt] as const]
    : [["prepare", setupAt] as const, ["setup", readyAt] as const]
  const first = [["pull", pulledAt ?? null] as const, ["create", createdAt] as const, ["start", calledAt] as const]
  for (const [name, at] of [...first, ...last]) {
    const end = Math.max(from, Math.min(at ?? from, wait.end))
    if (end > from) parts.push({ name, start: from, end })
    from = end
  }
  return parts
}
