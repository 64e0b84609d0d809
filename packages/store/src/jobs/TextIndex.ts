/**
 * The index of words: it finds jobs by the words in their inputs, outputs, errors and tags.
 *
 * ```
 *   submit, end, removal --commit--> jobs            writes nothing into the index
 *                          `------> changed jobs     in memory
 *   step: some changed jobs --read texts--> words --own commit--> index
 *   list with words:  jobs of the index + changed jobs   ----> the caller compares their texts
 *                     all jobs, while the index is incomplete
 * ```
 *
 * The index is a hint. A search finds the same jobs with and without it, because it compares the text of every job that the store lists
 * (`@stint/contract/SearchText`), and because a store also lists the jobs that the index does not know yet.
 */
import { type JobWords, wordsOf } from "@stint/contract/SearchText"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { StoreError } from "../StoreError.ts"

/** The texts of a job. `isCut`: only the beginning of the text. */
export interface JobTexts {
  readonly input: StoredText
  readonly output: StoredText
  readonly error: StoredText
  readonly tags: ReadonlyArray<string>
}

/** A text, or its beginning. It has at least the first `TEXT_LENGTH` characters, or is complete. Null: the job has none. */
export interface StoredText {
  readonly text: string | null
  readonly isCut: boolean
}

/** A text that a store has read completely. */
export const complete = (text: string | null): StoredText => ({ text, isCut: false })

/** Everything from the traceback on, which an endpoint may hide from callers. The text may be cut, so it may be invalid JSON. */
const TRACEBACK = /\s*\ntraceback: |,?\s*"error_traceback"/

const beforeTraceback = ({ isCut, text }: StoredText): StoredText => {
  const found = text === null ? null : TRACEBACK.exec(text)
  return text === null || found === null ? { text, isCut } : complete(text.slice(0, found.index))
}

/** The words of a job. An error has those before its traceback: the search must not reveal what an endpoint hides. */
export const jobWords = ({ error, input, output, tags }: JobTexts): JobWords => {
  const shown = beforeTraceback(error)
  return {
    input: wordsOf(input.text, { isCut: input.isCut, isJson: true }),
    output: wordsOf(output.text, { isCut: output.isCut, isJson: true }),
    // An error is a sentence, or the exception of a worker as JSON.
    error: wordsOf(shown.text, { isCut: shown.isCut, isJson: shown.text?.startsWith("{") === true }),
    // No word of a phrase is empty, so that a phrase does not begin in one tag and end in another.
    tags: { words: tags.flatMap((tag) => ["", ...wordsOf(tag, { isJson: false }).words]), isCut: false }
  }
}

/** How much of the jobs an index covers. */
export interface TextIndexState {
  /**
   * `ready`: all jobs, or those submitted since `from`. `building`: searches compare all jobs until the index is complete. `none`: there is no
   * index, and searches compare all jobs.
   */
  readonly state: "ready" | "building" | "none"
  /** Searches compare all jobs from before this time, because the index has reached its maximum size. Null: it covers all jobs. */
  readonly from: number | null
  /** The number of changed jobs that the index does not contain yet. Searches compare them. */
  readonly behind: number
}

/** Default maximum size of an index: the characters of all indexed words. */
export const DEFAULT_INDEX_SIZE = 1024 * 1024 * 1024

/** The maximum size of an index: the characters of all indexed words. */
export const TextIndexSize = Context.Reference<number>("@stint/store/TextIndexSize", { defaultValue: () => DEFAULT_INDEX_SIZE })

/** The state of a store without an index. */
export const NO_INDEX: TextIndexState = { state: "none", from: null, behind: 0 }

export class TextIndex extends Context.Service<TextIndex, {
  readonly state: Effect.Effect<TextIndexState, StoreError>

  /** Indexes some jobs, which takes a few milliseconds. Returns true when more are waiting. The first call makes the store begin to record changes. */
  readonly step: Effect.Effect<boolean, StoreError>

  /** Returns when a change is waiting for a `step`, or after some time. */
  readonly wait: Effect.Effect<void>

  /** Removes the whole index, in steps: returns true when something is left. Only for an index that no `step` has begun. */
  readonly clear: Effect.Effect<boolean, StoreError>
}>()("@stint/store/TextIndex") {}

/** A store without an index. */
export const none: TextIndex["Service"] = {
  state: Effect.succeed(NO_INDEX),
  step: Effect.succeed(false),
  wait: Effect.never,
  clear: Effect.succeed(false)
}
