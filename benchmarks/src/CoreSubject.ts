/**
 * A process that runs jobs through a queue's core, as a subject of a comparison.
 */
import type { Subject } from "./Rounds.ts"
import { type Running, startSubject } from "./SubjectProcess.ts"

/** How the subjects are measured. `cpu` receives the CPU time per job of each round, by subject; `running` the processes to end. */
export interface CoreMeasurement {
  readonly lanes: number
  /** The duration of a round. */
  readonly seconds: number
  readonly cpu: Map<string, Array<number>>
  readonly running: Array<Running>
}

/** Starts a subject. */
export const startCore = async (
  { cpu, lanes, running, seconds }: CoreMeasurement,
  name: string,
  file: string,
  args: ReadonlyArray<string>
): Promise<Subject> => {
  const one = await startSubject(file, args)
  running.push(one)
  // The first round warms up, the second determines the number of jobs per round.
  await one.round({ jobs: 500, lanes })
  const { rate } = await one.round({ jobs: 500, lanes })
  const load = { jobs: Math.max(200, Math.round(rate * seconds)), lanes }
  const costs: Array<number> = []
  cpu.set(name, costs)
  return {
    name,
    run: async () => {
      const figures = await one.round(load)
      costs.push(figures.cpu)
      return figures.rate
    }
  }
}
