/**
 * Records in the nodes' shared settings whether this database contains a copy from another store. No node starts while a copy is unfinished.
 */
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"

/** `backup`: a complete copy of a platform that has continued to run since. */
const ImportState = Schema.Struct({
  state: Schema.Literals(["unfinished", "backup", "complete"]),
  /** Tells platforms apart. */
  origin: Schema.NullOr(Schema.Int),
  /** The greatest node number at the beginning of the copy. */
  nodes: Schema.Int
})
export type ImportState = typeof ImportState.Type

const Text = Schema.fromJsonString(ImportState)
const decodeRow = Schema.decodeUnknownSync(Schema.Tuple([Text]))
const encode = Schema.encodeSync(Text)

const KEY = "import"

/** The advisory lock that an import or a node holds while it begins. */
const BEGIN_LOCK = 5_354_494_003

/** Until the transaction ends, no other import or node can begin, so whichever begins second sees the first. */
export const lock = async (query: Query): Promise<void> => {
  await query(`SELECT pg_advisory_xact_lock($1)`, [BEGIN_LOCK])
}

/** Undefined: there was no copy. */
export const read = async (query: Query): Promise<ImportState | undefined> => {
  const [row] = await query(`SELECT value FROM stint.settings WHERE key = $1`, [KEY])
  return row === undefined ? undefined : decodeRow(row)[0]
}

/** Replaces what is recorded. */
export const write = async (query: Query, state: ImportState): Promise<void> => {
  await query(`INSERT INTO stint.settings (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, [
    KEY,
    encode(state)
  ])
}
