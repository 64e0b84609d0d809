/**
 * What the end of a worker means: for the jobs it held, for the endpoint's {@link file://./RestartBackoff.ts crash budget}, and in words. Pure.
 *
 * | | asked to leave | not asked, was ready | never was ready |
 * |---|---|---|---|
 * | code 0, holds no job | left | left (it recycles itself) | failed start |
 * | code 0, holds a job | left, the job goes back unstarted | crash | - |
 * | another code, a signal | left; a cause if it holds a job | crash | failed start |
 * | ended by the platform | left; a cause if it holds a job | crash | failed start |
 */
import { describeExit, withLastOutput, type WorkerExit } from "@stint/pool/WorkerExit"

/** What is known of a worker when it is gone. */
export interface ExitContext {
  readonly worker: string
  readonly exit: WorkerExit
  /** It had called the platform. */
  readonly ready: boolean
  /** How many jobs it held. */
  readonly jobsHeld: number
  /** It was asked to leave, or had said that it leaves. */
  readonly exitExpected: boolean
  /** Why the platform killed it, as a sentence that names it; undefined when it did not. */
  readonly killReason: string | undefined
  /** The failed fitness check that it reported, if it did. */
  readonly unhealthy: string | undefined
}

/** What its end means. */
export interface ExitClassification {
  readonly kind: "left" | "crashed" | "failedStart"
  /** What happened, in words and with its last lines. */
  readonly reason: string
  /** What its jobs are told; undefined when they never started, or when there are none to tell. */
  readonly cause: string | undefined
}

const words = ({ exitExpected, killReason, exit, jobsHeld, ready, unhealthy, worker }: ExitContext): string => {
  if (killReason !== undefined) return killReason
  if (unhealthy !== undefined) return `Worker ${worker} ended itself because it is unhealthy: ${unhealthy}.`
  if (exit._tag !== "Exited" || exit.code !== 0 || exitExpected) return describeExit(worker, exit)
  if (!ready) {
    return `Worker ${worker} exited with code 0 before it asked for a job. A worker has to call serverless.start, or speak the worker ` +
      `protocol with the variables it is given.`
  }
  return jobsHeld === 0 ? describeExit(worker, exit) : `Worker ${worker} exited with code 0 without delivering the result.`
}

/** Says what the end of a worker means; the table at the head of this file is its whole logic. */
export const classifyExit = (circumstances: ExitContext): ExitClassification => {
  const { exitExpected, exit, jobsHeld, ready } = circumstances
  const inOrder = exit._tag === "Exited" && exit.code === 0 && circumstances.killReason === undefined
  const reason = withLastOutput(words(circumstances), exit.log)
  if (exitExpected || (ready && inOrder && jobsHeld === 0)) {
    return { kind: "left", reason, cause: inOrder || jobsHeld === 0 ? undefined : reason }
  }
  return { kind: ready ? "crashed" : "failedStart", reason, cause: reason }
}
