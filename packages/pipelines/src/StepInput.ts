/**
 * The input of a step, as its first record contains it (docs/decisions/0044-journal-of-runs.md).
 */
import { MAX_STEP_INPUT, type StepInput } from "@stint/contract/RunJournal"
import { previewValue } from "@stint/worker/ValuePreview"
import * as Schema from "effect/Schema"
import type { Node } from "./Definition.ts"

/** How much of an input that is too long is recorded, in characters. Escaped, it may be twice as long. */
const BEGINNING = 1_000

const decodeJson = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Json))

/** The length of `{"value":}`. */
const AROUND = 10

/** The record of an input. It is made before the step runs, because the step may change the value. */
export const inputOf = (value: unknown): StepInput => {
  let text: string | undefined
  try {
    text = JSON.stringify(value)
  } catch {
    // A cycle or a bigint.
    return { text: previewValue(value).slice(0, BEGINNING) }
  }
  if (text === undefined) return { value: null }
  return text.length + AROUND > MAX_STEP_INPUT ? { text: text.slice(0, BEGINNING) } : { value: decodeJson(text) }
}

/**
 * Whether the value after a node is computed, and so not recorded as the output of any node. `before`: the same for the value before it. The answer
 * is yes if it depends on the run, such as the part that a branch chooses.
 */
export const isComputedAfter = (node: Node, before: boolean): boolean => {
  switch (node.kind) {
    case "select":
      return true
    case "sleep":
      return before
    case "waitFor":
      return node.onTimeout !== undefined
    case "all":
    case "branch":
      return node.parts.some(({ nodes }) => nodes.reduce((isComputed, inner) => isComputedAfter(inner, isComputed), before))
    case "step":
    case "stream":
    case "run":
    case "forEach":
      return false
  }
}
