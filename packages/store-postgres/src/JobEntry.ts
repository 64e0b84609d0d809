/** A job of a transaction: as it is stored, and as it will be. */
import type { JsonText } from "@stint/contract/Json"
import type { JobHead, JobInput, JobOutcome, JobRecord } from "@stint/store/JobRecord"
import type { SubmissionKey } from "@stint/store/JobStore"
import * as RunTransactions from "@stint/store/RunTransactions"

/** A chunk that is not stored yet. */
export interface NewChunk {
  readonly attempt: number
  readonly number: number
  readonly body: JsonText
}

/** A job of the transaction. */
export interface Entry {
  readonly seq: number
  /** The position at which it received the slot of its concurrency key; meaningless without one. */
  turn: number
  /** As it is stored; undefined for a new job. */
  readonly stored: JobHead | undefined
  head: JobHead
  /** Whether the job is the run of a pipeline. */
  isRun: boolean
  removed: boolean
  /** The parts of the outcome that were loaded or have changed. */
  outcome: Partial<JobOutcome>
  /** Whether only the progress of a running job changed. */
  progressed: boolean
  input: Omit<JobInput, "input"> & { readonly input: JsonText | null }
  readonly inputBytes: number
  outcomeBytes: number
  chunkBytes: number
  /** Delete the stored chunks. */
  discard: boolean
  chunks: Array<NewChunk>
  readonly key: SubmissionKey | undefined
}

/** The attempt under which a chunk is stored. The attempts of a run continue each other, so all its chunks have the attempt 0. */
export const chunkAttempt = ({ attempt }: Pick<JobHead, "attempt">, isRun: boolean): number => isRun ? 0 : attempt

/** Whether the job may be cancelled or ended only together with other jobs: it is the run of a pipeline, or a child of one. */
export const isFamily = ({ head, isRun }: Pick<Entry, "head" | "isRun">): boolean => isRun || RunTransactions.isChild(head.id)

/** The complete job of an entry whose input was loaded. */
export const recordOf = ({ head, input: { input, ...rest }, outcome }: Entry): JobRecord => {
  if (input === null) throw new Error(`the input of job ${head.id} was not loaded`)
  return { ...head, progress: null, output: null, error: null, lastError: null, ...outcome, ...rest, input }
}
