/**
 * A process that runs jobs through a queue's core, as a subject of a comparison.
 */
import { startCost } from "./ProcessUsage.ts"
import type { Subject } from "./Rounds.ts"
import { type Running, startSubject } from "./SubjectProcess.ts"

/** How the subjects are measured. `running` receives the processes to end. */
export interface CoreMeasurement {
  readonly lanes: number
  /** The duration of a round. */
  readonly seconds: number
  readonly running: Array<Running>
}

/** Starts a subject. `servers`: the processes of its server, which belong to its cost. */
export const startCore = async (
  { lanes, running, seconds }: CoreMeasurement,
  name: string,
  file: string,
  args: ReadonlyArray<string>,
  servers: ReadonlyArray<number> = []
): Promise<Subject> => {
  const one = await startSubject(file, args)
  running.push(one)
  // The first round warms up, the second determines the number of jobs per round.
  await one.round({ jobs: 500, lanes })
  const { rate } = await one.round({ jobs: 500, lanes })
  const load = { jobs: Math.max(200, Math.round(rate * seconds)), lanes }
  return {
    name,
    run: async () => {
      const costOf = startCost([one.pid, ...servers])
      const figures = await one.round(load)
      return { figure: figures.rate, cost: costOf(load.jobs) }
    }
  }
}
