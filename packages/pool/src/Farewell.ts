/**
 * What the end of a worker means: for the jobs it held, for the endpoint's {@link file://./CrashBudget.ts crash budget}, and in words. Pure.
 *
 * | | asked to leave | not asked, was ready | never was ready |
 * |---|---|---|---|
 * | code 0, holds no job | left | left (it recycles itself) | failed start |
 * | code 0, holds a job | left, the job goes back unstarted | crash | - |
 * | another code, a signal | left; a cause if it holds a job | crash | failed start |
 * | ended by the platform | left; a cause if it holds a job | crash | failed start |
 */
import { sentence, withLog, type WorkerExit } from "./WorkerExit.ts"

/** What is known of a worker when it is gone. */
export interface Circumstances {
  readonly worker: string
  readonly exit: WorkerExit
  /** It had called the platform. */
  readonly ready: boolean
  /** How many jobs it held. */
  readonly holding: number
  /** It was asked to leave, or had said that it leaves. */
  readonly asked: boolean
  /** Why the platform killed it, as a sentence that names it; undefined when it did not. */
  readonly endedBecause: string | undefined
  /** The failed fitness check that it reported, if it did. */
  readonly unhealthy: string | undefined
}

/** What its end means. */
export interface Farewell {
  readonly kind: "left" | "crashed" | "failedStart"
  /** What happened, in words and with its last lines. */
  readonly reason: string
  /** What its jobs are told; undefined when they never started, or when there are none to tell. */
  readonly cause: string | undefined
}

const words = ({ asked, endedBecause, exit, holding, ready, unhealthy, worker }: Circumstances): string => {
  if (endedBecause !== undefined) return endedBecause
  if (unhealthy !== undefined) return `Worker ${worker} ended itself because it is unhealthy: ${unhealthy}.`
  if (exit._tag !== "Exited" || exit.code !== 0 || asked) return sentence(worker, exit)
  if (!ready) {
    return `Worker ${worker} exited with code 0 before it asked for a job. A worker has to call serverless.start, or speak the worker ` +
      `protocol with the variables it is given.`
  }
  return holding === 0 ? sentence(worker, exit) : `Worker ${worker} exited with code 0 without delivering the result.`
}

/** Says what the end of a worker means; the table at the head of this file is its whole logic. */
export const farewell = (circumstances: Circumstances): Farewell => {
  const { asked, exit, holding, ready } = circumstances
  const inOrder = exit._tag === "Exited" && exit.code === 0 && circumstances.endedBecause === undefined
  const reason = withLog(words(circumstances), exit.log)
  if (asked || (ready && inOrder && holding === 0)) {
    return { kind: "left", reason, cause: inOrder || holding === 0 ? undefined : reason }
  }
  return { kind: ready ? "crashed" : "failedStart", reason, cause: reason }
}
