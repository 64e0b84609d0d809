/** The rule for claims on an endpoint that has isolated jobs: each row of its table, ties, and how much of the queue it reads. */
import { type BusyWorker, busyWorkers, claimable } from "@stint/store/ClaimRule"
import { describe, expect, it } from "vitest"
import { running } from "./JobFixture.ts"

const ISOLATED = { isolated: true }
const OTHER = { isolated: false }

type Queue = ReadonlyArray<typeof ISOLATED>

const busy = (worker: string, jobs: number, isolated = false): BusyWorker => ({ worker, jobs, isolated })

const may = (worker: string, workers: ReadonlyArray<BusyWorker>, queue: Queue) =>
  claimable(worker, workers, (limit) => queue.slice(0, limit))

/** The limits with which the rule reads the queue. */
const limitsOf = (worker: string, workers: ReadonlyArray<BusyWorker>, queue: Queue) => {
  const limits: Array<number> = []
  claimable(worker, workers, (limit) => {
    limits.push(limit)
    return queue.slice(0, limit)
  })
  return limits
}

/** The workers that may claim nothing. */
const waiting = (workers: ReadonlyArray<BusyWorker>, queue: Queue) =>
  workers.map(({ worker }) => worker).filter((worker) => may(worker, workers, queue) === "none")

describe("a worker that runs nothing", () => {
  it("claims an isolated job only if it is the first job, and otherwise other jobs", () => {
    expect(may("ann", [], [ISOLATED])).toBe("next")
    expect(may("ann", [], [ISOLATED, OTHER])).toBe("next")
    expect(may("ann", [], [OTHER])).toBe("others")
    expect(may("ann", [], [OTHER, ISOLATED])).toBe("others")
    expect(may("ann", [], [])).toBe("others")
  })

  it("does not depend on the workers that are busy", () => {
    const others = [busy("bob", 1), busy("kim", 1, true)]
    expect(may("ann", others, [ISOLATED, OTHER])).toBe("next")
    expect(may("ann", others, [OTHER, ISOLATED])).toBe("others")
    expect(may("ann", others, [])).toBe("others")
  })

  it("reads only the first job", () => {
    expect(limitsOf("ann", [busy("bob", 1), busy("kim", 1)], [ISOLATED, ISOLATED])).toEqual([1])
  })
})

describe("a worker that runs an isolated job", () => {
  const workers = [busy("bob", 1), busy("ann", 1, true)]

  it("claims nothing, whatever waits", () => {
    expect(may("ann", workers, [])).toBe("none")
    expect(may("ann", workers, [OTHER])).toBe("none")
    expect(may("ann", workers, [OTHER, ISOLATED])).toBe("none")
    expect(may("ann", workers, [ISOLATED])).toBe("none")
  })

  it("does not read the queue", () => {
    expect(limitsOf("ann", workers, [OTHER])).toEqual([])
  })
})

describe("a worker that runs other jobs", () => {
  // Neither the order of the list nor the order of the names is the order of the number of jobs.
  const workers = [busy("bob", 2), busy("ann", 3), busy("zoe", 1)]

  it.each<readonly [what: string, Queue, ReadonlyArray<string>]>([
    ["nothing waits", [], []],
    ["the first job is not isolated", [OTHER, ISOLATED, ISOLATED], []],
    ["one isolated job is first", [ISOLATED], ["zoe"]],
    ["an isolated job is first, and another waits behind a job that is not isolated", [ISOLATED, OTHER, ISOLATED], ["zoe"]],
    ["two isolated jobs are first", [ISOLATED, ISOLATED], ["bob", "zoe"]],
    ["two isolated jobs are first, and others wait", [ISOLATED, ISOLATED, OTHER], ["bob", "zoe"]],
    ["as many isolated jobs are first as there are workers", [ISOLATED, ISOLATED, ISOLATED], ["bob", "ann", "zoe"]],
    ["more isolated jobs are first than there are workers", [ISOLATED, ISOLATED, ISOLATED, ISOLATED], ["bob", "ann", "zoe"]]
  ])("becomes free for an isolated job if it has the fewest jobs: %s", (_, queue, names) => {
    expect(waiting(workers, queue)).toEqual(names)
  })

  it("claims jobs that are not isolated while it need not become free", () => {
    expect(workers.map(({ worker }) => may(worker, workers, [ISOLATED]))).toEqual(["others", "others", "none"])
  })

  it("becomes free before a worker with as many jobs if its name comes first", () => {
    expect(waiting([busy("ann", 2), busy("bob", 2)], [ISOLATED])).toEqual(["ann"])
    expect(waiting([busy("bob", 2), busy("ann", 2)], [ISOLATED])).toEqual(["ann"])
    expect(waiting([busy("kim", 2), busy("bob", 2), busy("ann", 2)], [ISOLATED, ISOLATED])).toEqual(["bob", "ann"])
  })

  it("does not count workers that run an isolated job, which become free in any case", () => {
    const one = [busy("kim", 1, true), ...workers]
    expect(waiting(one, [ISOLATED])).toEqual(["kim", "zoe"])
    expect(waiting(one, [ISOLATED, ISOLATED])).toEqual(["kim", "bob", "zoe"])
    expect(limitsOf("ann", one, [ISOLATED, ISOLATED, ISOLATED, ISOLATED])).toEqual([3])
  })

  it("reads as many jobs as there are workers that could become free", () => {
    expect(limitsOf("ann", workers, [ISOLATED, ISOLATED, ISOLATED, ISOLATED])).toEqual([3])
    expect(limitsOf("ann", [busy("ann", 1)], [ISOLATED, ISOLATED])).toEqual([1])
  })
})

describe("the busy workers of an endpoint", () => {
  it("are counted from the running jobs, in the order of their first jobs", () => {
    const jobs = ["bob", "ann", "bob", "bob"].map((worker) => ({ ...running, worker }))
    expect(busyWorkers(jobs)).toEqual([busy("bob", 3), busy("ann", 1)])
    expect(busyWorkers(new Set(jobs))).toEqual([busy("bob", 3), busy("ann", 1)])
    expect(busyWorkers([])).toEqual([])
  })

  it("run an isolated job if any of their jobs is isolated", () => {
    const isolated = { ...running, isolated: true }
    expect(busyWorkers([isolated])).toEqual([busy("ann", 1, true)])
    expect(busyWorkers([isolated, running])).toEqual([busy("ann", 2, true)])
    expect(busyWorkers([running, isolated])).toEqual([busy("ann", 2, true)])
    expect(busyWorkers([running, isolated, running])).toEqual([busy("ann", 3, true)])
    expect(busyWorkers([{ ...running, worker: "bob" }, isolated])).toEqual([busy("bob", 1), busy("ann", 1, true)])
  })

  it("do not include that of a job without a worker, such as a parked run", () => {
    expect(busyWorkers([{ ...running, worker: null, leaseExpiresAt: null }])).toEqual([])
    expect(busyWorkers([{ ...running, worker: null }, running])).toEqual([busy("ann", 1)])
  })
})
