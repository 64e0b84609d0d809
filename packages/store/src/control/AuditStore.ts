/**
 * The store of the audit log: who changed what (docs/operations/audit.md).
 */
import type { AuditEntry, AuditResult } from "@stint/contract/Audit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { StoreError } from "../StoreError.ts"

/**
 * The kind of an entry. Each kind has its own bound, so that many entries of one kind never remove those of another. `platform`: a change
 * through the control API. `routine`: an operation on jobs or batches, or reading a secret, which programs do often. `unsuccessful`: a
 * refused or failed operation, which any key can cause.
 */
export type AuditKind = "platform" | "routine" | "unsuccessful"

/** All kinds. */
export const AUDIT_KINDS: ReadonlyArray<AuditKind> = ["platform", "routine", "unsuccessful"]

/** An entry to be stored. */
export type NewAuditEntry = Omit<AuditEntry, "id">

/** Filters and pagination. Filters that are undefined match every entry. */
export interface AuditQuery {
  readonly limit: number
  /** Only entries with a lower id. */
  readonly before?: number | undefined
  /** An action such as `keys.createKey`, or the part before the dot: `keys`. */
  readonly action?: string | undefined
  /** The id or the name of a key. */
  readonly key?: string | undefined
  /** A target, or a prefix of it that ends before a slash: `endpoint/hello` includes `endpoint/hello/build/3`. */
  readonly target?: string | undefined
  readonly result?: AuditResult | undefined
  /** Only entries at or after this time, in milliseconds since 1970. */
  readonly since?: number | undefined
}

/** The entries that {@link AuditStore} keeps. */
export interface AuditBounds {
  /** Entries before this time are removed. In milliseconds since 1970. */
  readonly before: number
  /** The number of entries of each kind that are kept. The oldest ones are removed. */
  readonly entries: number
}

export class AuditStore extends Context.Service<AuditStore, {
  /** Stores an entry, even while the disk is too full for new jobs. Its id is higher than that of every earlier entry. */
  readonly append: (kind: AuditKind, entry: NewAuditEntry) => Effect.Effect<AuditEntry, StoreError>
  /** Newest first: by descending id. */
  readonly list: (query: AuditQuery) => Effect.Effect<ReadonlyArray<AuditEntry>, StoreError>
  /** Removes entries beyond the bounds, the oldest first, and at most `limit` of them. Returns their number. */
  readonly trim: (bounds: AuditBounds, limit: number) => Effect.Effect<number, StoreError>
}>()("@stint/store/AuditStore") {}

/** Whether `text` is `wanted`, or begins with it followed by the separator. */
const isWithin = (text: string, wanted: string | undefined, separator: string): boolean =>
  wanted === undefined || text === wanted || text.startsWith(wanted + separator)

const matches = (entry: AuditEntry, { action, before = Infinity, key, result, since = -Infinity, target }: AuditQuery): boolean =>
  entry.id < before && entry.at >= since && (key === undefined || entry.key === key || entry.name === key) &&
  (result === undefined || entry.result === result) && isWithin(entry.action, action, ".") && isWithin(entry.target, target, "/")

/** The audit log in memory. */
export const layerMemory: Layer.Layer<AuditStore> = Layer.sync(AuditStore, () => {
  const entries: Array<{ readonly kind: AuditKind; readonly entry: AuditEntry }> = []
  let last = 0

  const excess = ({ before, entries: kept }: AuditBounds) => {
    const newer = new Map<AuditKind, number>()
    return entries.toReversed().filter(({ entry: { at }, kind }) => {
      const rank = (newer.get(kind) ?? 0) + 1
      newer.set(kind, rank)
      return at < before || rank > kept
    }).map(({ entry: { id } }) => id).toReversed()
  }

  return AuditStore.of({
    append: (kind, fields) =>
      Effect.sync(() => {
        last += 1
        const entry = { ...fields, id: last }
        entries.push({ kind, entry })
        return entry
      }),
    list: (query) =>
      Effect.sync(() =>
        entries.toReversed().map(({ entry }) => entry).filter((entry) => matches(entry, query)).slice(0, query.limit)
      ),
    trim: (bounds, limit) =>
      Effect.sync(() => {
        const removed = new Set(excess(bounds).slice(0, limit))
        const kept = entries.filter(({ entry: { id } }) => !removed.has(id))
        entries.splice(0, entries.length, ...kept)
        return removed.size
      })
  })
})
