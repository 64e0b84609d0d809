/**
 * Classifies the exit of a worker: its effect on the worker's jobs and on the restart backoff, and its description. Pure.
 *
 * | | asked to exit | not asked, was ready | was never ready |
 * |---|---|---|---|
 * | code 0, holds no job | expected | expected (it recycles itself) | failed start |
 * | code 0, holds a job | expected, the job returns to the queue unstarted | crash | - |
 * | another code, a signal | expected; a cause if it holds a job | crash | failed start |
 * | killed by the platform | expected; a cause if it holds a job | crash | failed start |
 */
import { describeExit, withLastOutput, type WorkerExit } from "@stint/pool/WorkerExit"

/** The facts about an exited worker. */
export interface ExitContext {
  readonly worker: string
  readonly exit: WorkerExit
  /** The worker had called the platform. */
  readonly ready: boolean
  /** Number of jobs it held. */
  readonly jobsHeld: number
  /** It was asked to exit, or had announced its exit. */
  readonly exitExpected: boolean
  /** Why the platform killed it, as a sentence that names it; undefined when the platform did not. */
  readonly killReason: string | undefined
  /** The failed fitness check that it reported, if any. */
  readonly unhealthy: string | undefined
}

/** The classification. */
export interface ExitClassification {
  readonly kind: "left" | "crashed" | "failedStart"
  /** A description, with the last lines of its output. */
  readonly reason: string
  /** The cause recorded for its jobs; undefined when they never started, or when it held none. */
  readonly cause: string | undefined
}

const words = ({ exitExpected, killReason, exit, jobsHeld, ready, unhealthy, worker }: ExitContext): string => {
  if (killReason !== undefined) return killReason
  if (unhealthy !== undefined) return `Worker ${worker} ended itself because it is unhealthy: ${unhealthy}.`
  if (exit._tag !== "Exited" || exit.code !== 0 || exitExpected) return describeExit(worker, exit)
  if (!ready) {
    return `Worker ${worker} exited with code 0 before it asked for a job. A worker must call serverless.start, or speak the worker ` +
      `protocol with the variables it receives.`
  }
  return jobsHeld === 0 ? describeExit(worker, exit) : `Worker ${worker} exited with code 0 without delivering the result.`
}

/** Classifies an exit by the table at the head of this file. */
export const classifyExit = (circumstances: ExitContext): ExitClassification => {
  const { exitExpected, exit, jobsHeld, ready } = circumstances
  const inOrder = exit._tag === "Exited" && exit.code === 0 && circumstances.killReason === undefined
  const reason = withLastOutput(words(circumstances), exit.log)
  if (exitExpected || (ready && inOrder && jobsHeld === 0)) {
    return { kind: "left", reason, cause: inOrder || jobsHeld === 0 ? undefined : reason }
  }
  return { kind: ready ? "crashed" : "failedStart", reason, cause: reason }
}
