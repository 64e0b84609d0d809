/**
 * Decides which jobs a worker may claim on an endpoint that has isolated jobs: jobs whose last worker was lost, perhaps because of them. Pure.
 *
 * ```
 *   the worker runs ...        claims
 *   an isolated job            nothing, until that job ends
 *   nothing                    the first job in the claim order, isolated or not: an isolated job alone, other jobs together
 *   other jobs                 jobs that are not isolated; nothing when the worker must become free for an isolated job
 * ```
 *
 * An isolated job at the head of the queue would wait forever for busy workers that always take another job. So for each isolated job at
 * the head, one worker takes no more jobs until it is free. The workers with the fewest jobs are chosen.
 */
import type { JobHead } from "./JobRecord.ts"

/** A worker that runs jobs of the endpoint. */
export interface BusyWorker {
  readonly worker: string
  /** The number of jobs that it runs. */
  readonly jobs: number
  /** Whether it runs an isolated job. */
  readonly isolated: boolean
}

/** What a claim may return: `next`, the first job in the claim order, `others`, jobs that are not isolated, or `none`. */
export type Claimable = "next" | "others" | "none"

/** Workers with the fewest jobs first. */
const becomesFreeBefore = (a: BusyWorker, b: BusyWorker): number => a.jobs - b.jobs || (a.worker < b.worker ? -1 : 1)

/**
 * Applies the rule to `worker`. `busy`: the endpoint's workers that run jobs. `ready`: reads the endpoint's first ready jobs in the claim
 * order, up to a limit.
 */
export const claimable = (
  worker: string,
  busy: ReadonlyArray<BusyWorker>,
  ready: (limit: number) => ReadonlyArray<Pick<JobHead, "isolated">>
): Claimable => {
  const own = busy.find((one) => one.worker === worker)
  if (own?.isolated === true) return "none"
  if (own === undefined) return ready(1)[0]?.isolated === true ? "next" : "others"
  const shared = busy.filter(({ isolated }) => !isolated)
  const first = ready(shared.length)
  const end = first.findIndex(({ isolated }) => !isolated)
  const becomingFree = [...shared].sort(becomesFreeBefore).slice(0, end === -1 ? first.length : end)
  return becomingFree.includes(own) ? "none" : "others"
}

/** The busy workers among running jobs of one endpoint, for stores that read them one by one. */
export const busyWorkers = (running: Iterable<JobHead>): ReadonlyArray<BusyWorker> => {
  const workers = new Map<string, BusyWorker>()
  for (const { isolated, worker } of running) {
    if (worker === null) continue
    const known = workers.get(worker)
    workers.set(worker, { worker, jobs: (known?.jobs ?? 0) + 1, isolated: isolated || known?.isolated === true })
  }
  return [...workers.values()]
}
