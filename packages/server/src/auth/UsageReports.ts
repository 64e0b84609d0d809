/**
 * What nodes report to each other about the usage of rate limits: cumulative counts, whose increase since the last report a node adds to its own.
 *
 * ```
 *   node A admits a call --heartbeat of A: "admitted 7, open 2"--> node B, at its next heartbeat: 7 - 4 known = 3 more calls
 * ```
 *
 * A cumulative count makes a missed report harmless. The number of an entry distinguishes a count that began again from zero. The first report of
 * a node is only remembered: its counts began before this node knew it, and their calls may have left the bucket since.
 */
import type { Reports } from "@stint/store/Nodes"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"

/** The limits that may apply to a call. */
export const Owner = Schema.Literals(["endpoint", "key"])

const Entry = Schema.Struct({
  subject: Schema.String,
  /** Differs whenever the count begins again from zero. */
  entry: Schema.Int,
  /** The calls that the node has admitted since the entry began. */
  admitted: Schema.Int,
  /** The calls that are open at the node. */
  open: Schema.Int,
  /** The rates that count them: a node may not have had a call of the subject yet. */
  rates: Schema.Array(Schema.Struct({ by: Owner, limit: Schema.Int, perMs: Schema.Int }))
})

/** The usage of one subject at one node. */
export type Entry = typeof Entry.Type

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Array(Entry)))

/** The text of a report. Never empty, so that the others know a node before its first call. */
export const encode = (entries: ReadonlyArray<Entry>): string => JSON.stringify(entries)

/** The usage of one subject at another node, and how many calls it has admitted since its last report. */
export interface Usage extends Entry {
  readonly calls: number
}

/** The last report of a node. */
interface Known {
  readonly text: string
  readonly entries: ReadonlyMap<string, Entry>
}

/** Reads the reports of the other nodes: each time, the usage at each node. A node that is gone has none. */
export const makeReader = (): (reports: Reports) => ReadonlyArray<Usage> => {
  let known: ReadonlyMap<string, Known> = new Map()
  return (reports) => {
    const next = new Map<string, Known>()
    const usages: Array<Usage> = []
    for (const [node, text] of reports) {
      const before = known.get(node)
      // Ignores the report of a newer version that this version cannot read.
      const entries = before?.text === text
        ? before.entries
        : new Map(Option.getOrElse(decode(text), () => []).map((entry) => [entry.subject, entry]))
      next.set(node, { text, entries })
      for (const entry of entries.values()) {
        const last = before?.entries.get(entry.subject)
        const calls = before === undefined ? 0 : last?.entry === entry.entry ? entry.admitted - last.admitted : entry.admitted
        usages.push({ ...entry, calls })
      }
    }
    known = next
    return usages
  }
}
