/** The columns of webhook deliveries and their decoders. */
import { WebhookDelivery, WebhookEntry } from "@stint/store/WebhookStore"
import * as Schema from "effect/Schema"
import type { Row } from "./Connection.ts"
import { unescapeNul } from "./NulText.ts"

/** The columns of `deliveries` for `INSERT`. */
export const DELIVERY = {
  id: "text",
  job: "text",
  endpoint: "text",
  event: "text",
  url: "text",
  state: "text",
  created_at: "bigint",
  attempts: "int",
  next_at: "bigint",
  body: "text",
  traceparent: "text",
  tracestate: "text"
} as const

const ENTRY_FIELDS = [
  "id",
  "job",
  "endpoint",
  "event",
  "url",
  "state",
  "createdAt",
  "attempts",
  "nextAt",
  "settledAt",
  "lastStatus",
  "lastError"
] as const

/** The columns of an entry. */
export const ENTRY = `id, job, endpoint, event, url, state, created_at, attempts, next_at, settled_at, last_status, last_error`

/** The columns of a delivery with its content. */
export const WHOLE = `${ENTRY}, body, traceparent, tracestate`

/** The columns that may contain a NUL character. */
const ESCAPED = new Set(["url", "lastError"])

const named = (names: ReadonlyArray<string>, row: Row) =>
  Object.fromEntries(names.map((name, index) => {
    const value = row[index]
    return [name, ESCAPED.has(name) && typeof value === "string" ? unescapeNul(value) : value]
  }))

const decodeEntry = Schema.decodeUnknownSync(WebhookEntry)
const decodeWhole = Schema.decodeUnknownSync(WebhookDelivery)

/** Decodes a row of {@link ENTRY}. */
export const toEntry = (row: Row): WebhookEntry => decodeEntry(named(ENTRY_FIELDS, row))

/** Decodes a row of {@link WHOLE}. */
export const toDelivery = (row: Row): WebhookDelivery =>
  decodeWhole(named([...ENTRY_FIELDS, "body", "traceparent", "tracestate"], row))
