/**
 * Classifies the exit of a worker: its effect on the worker's jobs and on the restart backoff, and its description. Pure.
 *
 * | | exit was requested | not requested, was ready | was never ready |
 * |---|---|---|---|
 * | code 0, holds no job | expected | expected (the worker recycles itself) | failed start |
 * | code 0, holds a job | expected, the job returns to the queue unstarted | crash | - |
 * | another exit code, or a signal | expected; a cause if it holds a job | crash | failed start |
 * | killed by the platform | expected; a cause if it holds a job | crash | failed start |
 */
import { describeExit, withLastOutput, type WorkerExit } from "@stint/pool/WorkerExit"

/** The facts about an exited worker. */
export interface ExitContext {
  readonly worker: string
  readonly exit: WorkerExit
  /** The worker had called the platform. */
  readonly ready: boolean
  /** The number of jobs that the worker held. */
  readonly jobsHeld: number
  /** The exit was requested, or the worker had announced it. */
  readonly exitExpected: boolean
  /** Why the platform killed the worker, as a sentence that names the worker; undefined when the platform did not kill it. */
  readonly killReason: string | undefined
  /** The failed fitness check that the worker reported, if any. */
  readonly unhealthy: string | undefined
  /** The worker's memory limit in bytes, if it has one. */
  readonly memoryBytes?: number | undefined
}

/** The classification. */
export interface ExitClassification {
  readonly kind: "left" | "crashed" | "failedStart"
  /** A description of the exit, with the last lines of the worker's output. */
  readonly reason: string
  /** The cause that is recorded for the worker's jobs; undefined when the jobs never started, or when the worker held no jobs. */
  readonly cause: string | undefined
}

const words = ({ exitExpected, killReason, exit, jobsHeld, memoryBytes, ready, unhealthy, worker }: ExitContext): string => {
  if (killReason !== undefined) return killReason
  if (unhealthy !== undefined) return `Worker ${worker} ended itself because it is unhealthy: ${unhealthy}.`
  if (exit._tag !== "Exited" || exit.code !== 0 || exitExpected) return describeExit(worker, exit, memoryBytes)
  if (!ready) {
    return `Worker ${worker} exited with code 0 before it asked for a job. A worker must call serverless.start, or speak the worker ` +
      `protocol with the variables it receives.`
  }
  return jobsHeld === 0 ? describeExit(worker, exit) : `Worker ${worker} exited with code 0 without delivering the result.`
}

/** Classifies an exit by the table at the top of this file. */
export const classifyExit = (circumstances: ExitContext): ExitClassification => {
  const { exitExpected, exit, jobsHeld, ready } = circumstances
  const inOrder = exit._tag === "Exited" && exit.code === 0 && circumstances.killReason === undefined
  const reason = withLastOutput(words(circumstances), exit.log)
  if (exitExpected || (ready && inOrder && jobsHeld === 0)) {
    return { kind: "left", reason, cause: inOrder || jobsHeld === 0 ? undefined : reason }
  }
  return { kind: ready ? "crashed" : "failedStart", reason, cause: reason }
}
