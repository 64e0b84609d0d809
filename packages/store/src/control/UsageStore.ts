/**
 * The store of usage: execution and worker time, summed by hour, endpoint, release and access key (docs/operations/usage.md).
 *
 * A node counts in memory and adds its counts every few seconds. Each addition has its own number. If the result of an addition is unknown, the node
 * repeats it, and the store counts it once.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { StoreError } from "../StoreError.ts"

/** An hour in milliseconds. */
export const HOUR_MILLIS = 3_600_000

/** The sums of one hour. Times are in milliseconds. */
export const UsageRecord = Schema.Struct({
  /** The beginning of the hour in UTC, in milliseconds since 1970. */
  hour: Schema.Int,
  endpoint: Schema.String,
  /** 0: none, or unknown. */
  release: Schema.Int,
  /** The id of the key that submitted the jobs; empty for worker time, and for jobs without an owner (Owner.ts). */
  key: Schema.String,
  /** Attempts that ended within the hour. */
  attempts: Schema.Int,
  /** The execution time of attempts that have ended. */
  executionMs: Schema.Int,
  /** How long workers were ready, including idle time. */
  workerMs: Schema.Int,
  /** The CPU time of workers. */
  cpuMs: Schema.Int,
  /** `workerMs` times the number of GPUs of the worker. */
  gpuMs: Schema.Int
})
export type UsageRecord = typeof UsageRecord.Type

/** What identifies a record. */
export type UsageKey = Pick<UsageRecord, "hour" | "endpoint" | "release" | "key">

/** An addition of one node. */
export interface UsageAddition {
  /** Identifies the process that counts. Different after each start. */
  readonly source: string
  /** Higher than that of every earlier addition from this source. */
  readonly sequence: number
  /** In milliseconds since 1970. */
  readonly at: number
  readonly records: ReadonlyArray<UsageRecord>
}

/** Which records to read. */
export interface UsageQuery {
  /** The first hour. */
  readonly from: number
  /** Only hours before this time. */
  readonly to: number
  readonly limit: number
  /** Only records after this one, in the order of `list`. */
  readonly after?: UsageKey | undefined
}

/** The records that {@link UsageStore} keeps. */
export interface UsageBounds {
  /** Hours before this time are removed. In milliseconds since 1970. */
  readonly before: number
  /** The number of records that are kept. The oldest ones are removed. */
  readonly records: number
}

export class UsageStore extends Context.Service<UsageStore, {
  /** Adds to the sums, in one step. Returns false, and adds nothing, if this addition or a later one from its source is already stored. */
  readonly add: (addition: UsageAddition) => Effect.Effect<boolean, StoreError>
  /** By hour, endpoint, release and key, each ascending. Strings are compared by their UTF-8 bytes. */
  readonly list: (query: UsageQuery) => Effect.Effect<ReadonlyArray<UsageRecord>, StoreError>
  /**
   * Removes records beyond the bounds, the oldest first, and at most `limit` of them. Returns their number. Forgets the sources whose last
   * addition was before `bounds.before`.
   */
  readonly trim: (bounds: UsageBounds, limit: number) => Effect.Effect<number, StoreError>
}>()("@stint/store/UsageStore") {}

const bytes = (text: string) => new TextEncoder().encode(text)

const compareTexts = (a: string, b: string): number => {
  const [left, right] = [bytes(a), bytes(b)]
  for (const [index, byte] of left.entries()) {
    const other = right[index]
    if (other === undefined) return 1
    if (byte !== other) return byte - other
  }
  return left.length - right.length
}

const compare = (a: UsageKey, b: UsageKey): number =>
  a.hour - b.hour || compareTexts(a.endpoint, b.endpoint) || a.release - b.release || compareTexts(a.key, b.key)

/** Adds up two records with the same key. */
export const plus = (a: UsageRecord, b: UsageRecord): UsageRecord => ({
  ...a,
  attempts: a.attempts + b.attempts,
  executionMs: a.executionMs + b.executionMs,
  workerMs: a.workerMs + b.workerMs,
  cpuMs: a.cpuMs + b.cpuMs,
  gpuMs: a.gpuMs + b.gpuMs
})

/** A string that identifies a record. Endpoint ids contain no line breaks. */
export const usageKeyText = ({ endpoint, hour, key, release }: UsageKey): string => `${hour}\n${endpoint}\n${release}\n${key}`

/** Usage in memory. */
export const layerMemory: Layer.Layer<UsageStore> = Layer.sync(UsageStore, () => {
  let records = new Map<string, UsageRecord>()
  const sources = new Map<string, { readonly sequence: number; readonly at: number }>()
  const sorted = () => [...records.values()].toSorted(compare)

  return UsageStore.of({
    add: ({ at, records: added, sequence, source }) =>
      Effect.sync(() => {
        if ((sources.get(source)?.sequence ?? 0) >= sequence) return false
        sources.set(source, { sequence, at })
        for (const record of added) {
          const id = usageKeyText(record)
          const known = records.get(id)
          records.set(id, known === undefined ? record : plus(known, record))
        }
        return true
      }),
    list: ({ after, from, limit, to }) =>
      Effect.sync(() =>
        sorted().filter((record) =>
          record.hour >= from && record.hour < to && (after === undefined || compare(record, after) > 0)
        ).slice(0, limit)
      ),
    trim: ({ before, records: kept }, limit) =>
      Effect.sync(() => {
        for (const [source, { at }] of sources) if (at < before) sources.delete(source)
        const all = sorted()
        const old = all.filter(({ hour }, index) => hour < before || all.length - index > kept)
        const removed = new Set(old.slice(0, limit))
        records = new Map([...records].filter(([, record]) => !removed.has(record)))
        return removed.size
      })
  })
})
