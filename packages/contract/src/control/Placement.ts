/**
 * Labels of machines, and the labels that an endpoint requires of its workers' machines (docs/operations/agents.md#choose-machines-by-label).
 */
import * as Schema from "effect/Schema"

/** The maximum number of labels of a machine or an endpoint. */
const MAX_LABELS = 32

/** A name or value, within Kubernetes' rules for labels, so that an endpoint can also select the nodes of a cluster. */
const PART = /^[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?$/

/** A name may have a prefix: `example.com/gpu`. */
const PREFIX = /^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/

const isName = (text: string): boolean => {
  const at = text.indexOf("/")
  return PART.test(text.slice(at + 1)) && (at === -1 || PREFIX.test(text.slice(0, at)))
}

/** Labels by name. */
export const Labels = Schema.Record(Schema.String, Schema.String).check(
  Schema.makeFilter((labels) => {
    const entries = Object.entries(labels)
    if (entries.length > MAX_LABELS) return `expected at most ${MAX_LABELS} labels`
    const wrong = entries.find(([name, value]) => !isName(name) || !PART.test(value))
    return wrong === undefined ||
      {
        path: [wrong[0].slice(0, 300)],
        issue:
          "the name and the value of a label are 1 to 63 letters, digits, ., - or _, and begin and end with a letter or a digit"
      }
  })
)
export type Labels = typeof Labels.Type

/** Which machines may run the workers of an endpoint. */
export const Placement = Schema.Struct({
  /** The machine has all of these labels. */
  labels: Labels
})
export type Placement = typeof Placement.Type

/** `gpu=a100, zone=eu` */
export const labelText = (labels: Labels): string =>
  Object.entries(labels).map(([name, value]) => `${name}=${value}`).toSorted().join(", ")
