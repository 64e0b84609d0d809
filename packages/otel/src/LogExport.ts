/**
 * Exports log records over OTLP/HTTP (BatchExport.ts).
 */
import * as Effect from "effect/Effect"
import type { HttpClient } from "effect/http"
import { OtlpResource } from "effect/observability"
import type * as Scope from "effect/Scope"
import * as BatchExport from "./BatchExport.ts"
import type { Identity } from "./OtelSdk.ts"
import type * as OtlpConfig from "./OtlpConfig.ts"

/** The numbers that OpenTelemetry assigns to the levels. */
const SEVERITIES = { TRACE: 1, DEBUG: 5, INFO: 9, WARN: 13, ERROR: 17 } as const

/** A log record. */
export interface LogRecord {
  /** Milliseconds since 1970. */
  readonly time: number
  readonly level: keyof typeof SEVERITIES
  readonly message: string
  /** Undefined values are omitted. */
  readonly attributes: Readonly<Record<string, string | number | boolean | undefined>>
  /** The span that the record belongs to. 32 and 16 hexadecimal digits. */
  readonly span: { readonly traceId: string; readonly spanId: string } | undefined
}

const encode = ({ attributes, level, message, span, time }: LogRecord) => ({
  timeUnixNano: BatchExport.nanosOf(time),
  observedTimeUnixNano: BatchExport.nanosOf(time),
  severityNumber: SEVERITIES[level],
  severityText: level,
  body: { stringValue: message },
  attributes: OtlpResource.entriesToAttributes(Object.entries(attributes).filter(([, value]) => value !== undefined)),
  droppedAttributesCount: 0,
  ...span
})

/** Exports records as the settings specify, until the scope closes. */
export const make = Effect.fnUntraced(function*(options: {
  readonly settings: OtlpConfig.LogSettings
  readonly identity: Identity
  /** The instrumentation scope of the records. */
  readonly scope: { readonly name: string }
  readonly counts: BatchExport.Counts
}): Effect.fn.Return<BatchExport.BatchExport<LogRecord>, never, HttpClient.HttpClient | Scope.Scope> {
  const { scope, ...target } = options
  return yield* BatchExport.make<LogRecord>({
    ...target,
    words: { signal: "Log lines", item: "line", queueSetting: "OTEL_BLRP_MAX_QUEUE_SIZE" },
    encode: (records, { otlp, resource }) =>
      otlp.logs({ resourceLogs: [{ resource, scopeLogs: [{ scope, logRecords: records.map(encode) }] }] })
  })
})
