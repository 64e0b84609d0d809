/**
 * The columns of pipeline runs and their decoders.
 */
import { EndpointId, JobId } from "@stint/contract/Ids"
import { JsonText } from "@stint/contract/Json"
import { EntryKind, RunPhase } from "@stint/contract/RunJournal"
import type { RunEntry, RunRecord } from "@stint/store/RunMachine"
import type { StoredDefinition } from "@stint/store/RunStore"
import type { RunPlace } from "@stint/store/RunTables"
import * as Schema from "effect/Schema"
import type { Row } from "./Connection.ts"
import { escapeNul, unescapeNul } from "./NulText.ts"

/** A path of a run, and the job at the top of nested runs. */
export interface RootedPlace extends RunPlace {
  readonly root: JobId
}

const decodeDefinition = Schema.decodeUnknownSync(Schema.Tuple([Schema.String, Schema.Int]))

/** A stored definition: `hash, at`. */
export const toDefinition = (row: Row): StoredDefinition => {
  const [hash, at] = decodeDefinition(row)
  return { hash, at }
}

/** The columns of `runs`, and their types. */
export const RUN = {
  run: "text",
  root: "text",
  endpoint: "text",
  definition: "text",
  phase: "text",
  undo: "boolean",
  last: "int",
  wanted: "int",
  held: "text"
} as const

/** The columns of `run_entries`, and their types. */
export const ENTRY = {
  run: "text",
  path: "text",
  kind: "text",
  n: "int",
  at: "bigint",
  until: "bigint",
  open: "boolean",
  news: "int",
  body: "text",
  ms: "bigint",
  input: "text"
} as const

/** The columns of `run_children`, and their types. */
export const CHILD = { job: "text", endpoint: "text", run: "text", path: "text", root: "text" } as const

/** The columns of `run_waits`, and their types. */
export const WAIT = { endpoint: "text", name: "text", key: "text", at: "bigint", run: "text", path: "text" } as const

/** The columns of `run_events` for `INSERT`, and their types. */
export const EVENT = { endpoint: "text", name: "text", key: "text", id: "text", expires_at: "bigint", body: "text" } as const

/** The list of columns of a table with an alias. */
export const listOf = (alias: string, columns: Readonly<Record<string, string>>): string =>
  Object.keys(columns).map((name) => `${alias}.${name}`).join(", ")

const decodeRun = Schema.decodeUnknownSync(Schema.Tuple([
  JobId,
  JobId,
  EndpointId,
  Schema.String,
  RunPhase,
  Schema.Boolean,
  Schema.Int,
  Schema.Int,
  Schema.NullOr(Schema.String)
]))

const decodeEntry = Schema.decodeUnknownSync(Schema.Tuple([
  JobId,
  Schema.String,
  EntryKind,
  Schema.Int,
  Schema.Int,
  Schema.NullOr(Schema.Int),
  Schema.Boolean,
  Schema.Literals([0, 1, 2]),
  Schema.NullOr(JsonText),
  Schema.NullOr(Schema.Int),
  Schema.NullOr(JsonText)
]))

const decodeChild = Schema.decodeUnknownSync(Schema.Tuple([JobId, EndpointId, JobId, Schema.String, JobId]))
const decodePlace = Schema.decodeUnknownSync(Schema.Tuple([JobId, EndpointId, Schema.String, Schema.Int]))
const decodeEvent = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.Int, Schema.Boolean, JsonText]))
const decodeUnseen = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.NullOr(Schema.Int)]))
const decodeKept = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.Int]))
const decodeGraph = Schema.decodeUnknownSync(Schema.Tuple([JsonText]))
const decodeTime = Schema.decodeUnknownSync(Schema.Tuple([Schema.NullOr(Schema.Int)]))

/** Decodes the columns of {@link RUN}. */
export const toRun = (row: Row): RunRecord & { readonly root: JobId } => {
  const [run, root, endpoint, definition, phase, undo, last, wanted, held] = decodeRun(row)
  return { run, root, endpoint, definition, phase, undo, last, wanted, held: unescapeNul(held) }
}

/** The values of a run, in the order of {@link RUN}. */
export const runValues = (
  { definition, endpoint, held, last, phase, run, undo, wanted }: RunRecord,
  root: JobId
): ReadonlyArray<unknown> => [run, root, endpoint, definition, phase, undo, last, wanted, escapeNul(held)]

/** Decodes the columns of {@link ENTRY}. */
export const toEntry = (row: Row): { readonly run: JobId; readonly entry: RunEntry } => {
  const [run, path, kind, n, at, until, isOpen, news, body, ms, input] = decodeEntry(row)
  return { run, entry: { path, kind, n, at, body, ms, input, until, isOpen, news } }
}

/** The values of an entry, in the order of {@link ENTRY}. */
export const entryValues = (
  run: JobId,
  { at, body, input, isOpen, kind, ms, n, news, path, until }: RunEntry
): ReadonlyArray<unknown> => [
  run,
  path,
  kind,
  n,
  at,
  until,
  isOpen,
  news,
  body,
  ms,
  input
]

/** Decodes the columns of {@link CHILD}. */
export const toChild = (
  row: Row
): { readonly job: JobId; readonly endpoint: EndpointId } & Pick<RootedPlace, "run" | "path" | "root"> => {
  const [job, endpoint, run, path, root] = decodeChild(row)
  return { job, endpoint, run, path, root }
}

/** A stored wait. */
export interface Wait extends RunPlace {
  readonly at: number
}

/** Decodes the columns `run, endpoint, path, at` of a wait. */
export const toWait = (row: Row): Wait => {
  const [run, endpoint, path, at] = decodePlace(row)
  return { run, endpoint, path, at }
}

/** An event that is kept for a wait. */
export interface KeptEvent {
  readonly seq: number
  readonly expiresAt: number
  readonly hasId: boolean
  readonly body: JsonText
}

/** Decodes the columns `seq, expires_at, id IS NOT NULL, body` of an event. */
export const toEvent = (row: Row): KeptEvent => {
  const [seq, expiresAt, hasId, body] = decodeEvent(row)
  return { seq, expiresAt, hasId, body }
}

/** Decodes the number of unseen entries, and the highest urgency. */
export const toUnseen = (row: Row): { readonly count: number; readonly urgent: boolean } => {
  const [count, most] = decodeUnseen(row)
  return { count, urgent: most === 2 }
}

/** Decodes the number and the bytes of kept events. */
export const toKept = (row: Row): { readonly count: number; readonly bytes: number } => {
  const [count, bytes] = decodeKept(row)
  return { count, bytes }
}

/** Decodes a graph. */
export const toGraph = (row: Row): JsonText => decodeGraph(row)[0]

/** Decodes a time. */
export const toTime = (row: Row): number | null => decodeTime(row)[0]
