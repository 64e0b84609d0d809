/**
 * The webhook outbox in memory: part of the memory store, which adds a delivery in the same step as the change that causes it.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import * as Effect from "effect/Effect"
import { compareNewestFirst } from "../ListCursor.ts"
import {
  type NewDelivery,
  newDelivery,
  type WebhookDelivery,
  type WebhookEntry,
  type WebhookStore
} from "../webhooks/WebhookStore.ts"
import * as MinHeap from "./MinHeap.ts"

interface Entry {
  readonly seq: number
  row: WebhookDelivery
}

/**
 * A heap node with the due time that its entry had when the node was pushed. The node is dropped if the entry's due time has changed since.
 */
interface HeapNode {
  readonly entry: Entry
  readonly at: number
}

/** An empty outbox. */
export const make = (): { readonly service: WebhookStore["Service"]; readonly add: (delivery: NewDelivery) => void } => {
  const entries = new Map<string, Entry>()
  const due = MinHeap.make<HeapNode>((a, b) => a.at < b.at || (a.at === b.at && a.entry.seq < b.entry.seq))
  /** Each job's progress delivery that has not been claimed yet. A newer progress delivery replaces it. */
  const unsentProgress = new Map<JobId, Entry>()
  let seq = 0

  const schedule = (entry: Entry) => {
    if (entry.row.nextAt !== null) due.push({ entry, at: entry.row.nextAt })
  }

  const change = (entry: Entry, changes: Partial<WebhookDelivery>) => {
    entry.row = { ...entry.row, ...changes }
    schedule(entry)
  }

  const firstDue = (): Entry | undefined => {
    while (true) {
      const node = due.peek()
      if (node === undefined) return undefined
      if (entries.get(node.entry.row.id) === node.entry && node.entry.row.nextAt === node.at) return node.entry
      due.pop()
    }
  }

  const find = (endpoint: EndpointId, id: string): Entry | undefined => {
    const entry = entries.get(id)
    return entry?.row.endpoint === endpoint ? entry : undefined
  }

  const withoutBody = ({ body: _, traceparent: __, tracestate: ___, ...entry }: WebhookDelivery): WebhookEntry => entry

  const remove = (limit: number, matches: (row: WebhookDelivery) => boolean): number => {
    let removed = 0
    for (const { row } of entries.values()) {
      if (removed >= limit) break
      if (row.state === "pending" || !matches(row)) continue
      entries.delete(row.id)
      removed += 1
    }
    return removed
  }

  const add = (delivery: NewDelivery) => {
    const entry: Entry = { seq: ++seq, row: newDelivery(delivery) }
    if (delivery.event === "progress") {
      const superseded = unsentProgress.get(delivery.job)
      if (superseded !== undefined) entries.delete(superseded.row.id)
      unsentProgress.set(delivery.job, entry)
    }
    entries.set(entry.row.id, entry)
    schedule(entry)
  }

  return {
    add,
    service: {
      claimDue: (now, limit, leaseMs) =>
        Effect.sync(() => {
          const claimed: Array<WebhookDelivery> = []
          while (claimed.length < limit) {
            const entry = firstDue()
            if (entry?.row.nextAt == null || entry.row.nextAt > now) break
            due.pop()
            if (unsentProgress.get(entry.row.job) === entry) unsentProgress.delete(entry.row.job)
            change(entry, { attempts: entry.row.attempts + 1, nextAt: now + leaseMs })
            claimed.push(entry.row)
          }
          return claimed
        }),
      settle: (endpoint, id, attempt, outcome) =>
        Effect.sync(() => {
          const entry = find(endpoint, id)
          if (entry?.row.state !== "pending" || entry.row.attempts !== attempt) return false
          const settled = { settledAt: outcome.at, lastStatus: outcome.status, lastError: outcome.error }
          switch (outcome._tag) {
            case "Delivered":
              change(entry, { ...settled, state: "delivered", nextAt: null })
              break
            case "Failed":
              change(entry, { ...settled, state: "failed", nextAt: null })
              break
            case "Retry":
              change(entry, { ...settled, nextAt: outcome.nextAt })
          }
          return true
        }),
      nextDueAt: Effect.sync(() => firstDue()?.row.nextAt ?? null),
      list: ({ after, endpoint, job, limit, state }) =>
        Effect.sync(() => {
          const found = [...entries.values()]
            .map(({ row }) => row)
            .filter((row) =>
              (after === undefined || compareNewestFirst(after, row) < 0) &&
              (endpoint === undefined || row.endpoint === endpoint) && (job === undefined || row.job === job) &&
              (state === undefined || row.state === state)
            )
            .sort(compareNewestFirst)
          const page = found.slice(0, limit)
          const last = found.length > page.length ? page.at(-1) : undefined
          return {
            deliveries: page.map(withoutBody),
            next: last === undefined ? null : { createdAt: last.createdAt, id: last.id }
          }
        }),
      get: (endpoint, id) => Effect.sync(() => find(endpoint, id)?.row),
      resend: (endpoint, id, now) =>
        Effect.sync(() => {
          const entry = find(endpoint, id)
          if (entry === undefined) return undefined
          change(entry, { state: "pending", nextAt: now })
          return withoutBody(entry.row)
        }),
      removeBefore: (time, limit) => Effect.sync(() => remove(limit, ({ settledAt }) => settledAt !== null && settledAt < time)),
      removeEnded: (endpoint, limit) => Effect.sync(() => remove(limit, (row) => row.endpoint === endpoint))
    }
  }
}
