import * as fc from "fast-check"
import { describe, expect, it } from "vitest"
import * as ScalingPolicy from "../src/ScalingPolicy.ts"
import { type Arrival, optimum, type Scaler, simulate, type SimulationOptions } from "../src/Simulation.ts"

const run = (arrivals: ReadonlyArray<Arrival>, more: Partial<SimulationOptions> = {}) =>
  simulate({
    arrivals,
    limits: { min: 0, max: 3, idleTimeoutMs: 5_000 },
    scaler: { type: "QUEUE_DELAY", value: 4 },
    coldStart: 1_000,
    decide: ScalingPolicy.decide,
    ...more
  })

const arrivalsOf = fc.array(fc.record({ at: fc.integer({ min: 0, max: 40 }), duration: fc.integer({ min: 1, max: 15 }) }), {
  maxLength: 6
})
  .map((list) => list.toSorted((a, b) => a.at - b.at))

/** The minimum worker time without waits, found by trying every way to reuse the workers of ended jobs. */
const leastByTrying = (arrivals: ReadonlyArray<Arrival>, coldStart: number): number => {
  const least = (index: number, idle: ReadonlyArray<number>): number => {
    const job = arrivals[index]
    if (job === undefined) return 0
    const end = job.at + job.duration
    const fresh = coldStart + job.duration + least(index + 1, [...idle, end])
    return Math.min(
      fresh,
      ...idle.flatMap((since, n) =>
        since <= job.at ? [job.at - since + job.duration + least(index + 1, [...idle.toSpliced(n, 1), end])] : []
      )
    )
  }
  return least(0, [])
}

describe("the simulation", () => {
  it("runs two jobs on one worker: the second waits for the first, and the worker stops after the idle timeout", () => {
    expect(run([{ at: 0, duration: 2_000 }, { at: 500, duration: 300 }]))
      .toEqual({ waits: [1_000, 2_500], starts: 1, workerMillis: 3_300 + 5_000, peak: 1 })
  })

  it("lets the production function add a worker for a job that waits for 4 s", () => {
    const { peak, waits } = run([{ at: 0, duration: 20_000 }, { at: 2_000, duration: 300 }])
    expect(waits).toEqual([1_000, 5_000])
    expect(peak).toBe(2)
  })

  it("refuses a scaler that exceeds the maximum or stops a busy worker", () => {
    const jobs = [{ at: 0, duration: 2_000 }]
    const greedy: Scaler = () => ({ start: 4, drain: [], wakeAt: null })
    expect(() => run(jobs, { decide: greedy })).toThrow("4 workers are more than the maximum of 3")
    const impatient: Scaler = ({ now, workers }) => ({
      start: now === 0 ? 1 : 0,
      drain: now > 0 ? workers.map(({ id }) => id) : [],
      wakeAt: null
    })
    expect(() => run(jobs, { decide: impatient })).toThrow("the scaler drained w1, which is running")
    expect(() => run(jobs, { decide: () => ({ start: 0, drain: [], wakeAt: null }) })).toThrow("1 jobs wait forever")
  })

  it("assigns jobs to workers in the order of arrival", () => {
    fc.assert(
      fc.property(arrivalsOf, (short) => {
        const arrivals = short.map(({ at, duration }) => ({ at: at * 500, duration: duration * 500 }))
        const { waits } = run(arrivals)
        const takenAt = waits.map((wait, index) => (arrivals[index]?.at ?? 0) + wait)
        expect(takenAt).toEqual(takenAt.toSorted((a, b) => a - b))
        expect(waits.every((wait) => wait >= 0)).toBe(true)
      }),
      { numRuns: 50 }
    )
  })
})

describe("the optimum", () => {
  it("is the minimum worker time without waits", () => {
    fc.assert(
      fc.property(arrivalsOf, fc.integer({ min: 1, max: 12 }), (arrivals, coldStart) => {
        expect(optimum(arrivals, coldStart).workerMillis).toBe(leastByTrying(arrivals, coldStart))
      }),
      { numRuns: 200 }
    )
  })
})
