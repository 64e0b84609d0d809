/**
 * Exports spans that are made after the fact, with their own ids and times, over OTLP/HTTP (BatchExport.ts). It uses Effect's encoder and no
 * OpenTelemetry package. For the spans of running code, see `OtelSdk`.
 */
import * as Effect from "effect/Effect"
import type { HttpClient } from "effect/http"
import { OtlpResource, type OtlpTracer } from "effect/observability"
import type * as Scope from "effect/Scope"
import * as BatchExport from "./BatchExport.ts"
import type { Identity } from "./OtelSdk.ts"
import type * as OtlpConfig from "./OtlpConfig.ts"

/** The numbers that OTLP assigns to the kinds. */
const KINDS = { internal: 1, server: 2, client: 3, producer: 4, consumer: 5 } as const

const UNSET = 0
const ERROR = 2

/** An ended span. */
export interface FinishedSpan {
  readonly name: string
  readonly kind: keyof typeof KINDS
  /** 32 hexadecimal digits. */
  readonly traceId: string
  /** 16 hexadecimal digits. */
  readonly spanId: string
  /** Undefined for the first span of a trace. */
  readonly parentSpanId: string | undefined
  /** The W3C `tracestate` of the trace. */
  readonly traceState: string | undefined
  /** Milliseconds since 1970. Fractions are kept. */
  readonly start: number
  readonly end: number
  /** Undefined values are omitted. */
  readonly attributes: Readonly<Record<string, string | number | boolean | undefined>>
  /** Other spans of the same trace. */
  readonly links: ReadonlyArray<string>
  /** Why the span failed; undefined when it did not. */
  readonly error: { readonly type: string; readonly message: string } | undefined
}

/** Where finished spans go. */
export interface SpanExport {
  /** Queues a span. */
  readonly add: (span: FinishedSpan) => void
  /** Counts spans that were lost before they could be added. */
  readonly lose: (spans: number) => void
}

type OtlpSpan = OtlpTracer.ScopeSpan["spans"][number] & { readonly traceState?: string }

const encode = (span: FinishedSpan): OtlpSpan => {
  const attributes = Object.entries(span.attributes).filter(([, value]) => value !== undefined)
  if (span.error !== undefined) attributes.push(["error.type", span.error.type])
  return {
    traceId: span.traceId,
    spanId: span.spanId,
    parentSpanId: span.parentSpanId,
    ...(span.traceState === undefined ? {} : { traceState: span.traceState }),
    name: span.name,
    kind: KINDS[span.kind],
    startTimeUnixNano: BatchExport.nanosOf(span.start),
    endTimeUnixNano: BatchExport.nanosOf(Math.max(span.start, span.end)),
    attributes: OtlpResource.entriesToAttributes(attributes),
    droppedAttributesCount: 0,
    events: [],
    droppedEventsCount: 0,
    status: span.error === undefined ? { code: UNSET } : { code: ERROR, message: span.error.message },
    links: span.links.map((spanId) => ({ traceId: span.traceId, spanId, attributes: [], droppedAttributesCount: 0 })),
    droppedLinksCount: 0
  }
}

/** Exports spans as the settings specify, until the scope closes. */
export const make = Effect.fnUntraced(function*(options: {
  readonly settings: OtlpConfig.Settings
  readonly identity: Identity
  /** The instrumentation scope of the spans. */
  readonly scope: { readonly name: string; readonly version?: string }
  readonly counts: BatchExport.Counts
}): Effect.fn.Return<SpanExport, never, HttpClient.HttpClient | Scope.Scope> {
  const { scope, ...target } = options
  const { add, lose } = yield* BatchExport.make<FinishedSpan>({
    ...target,
    words: { signal: "Traces", item: "span", queueSetting: "OTEL_BSP_MAX_QUEUE_SIZE" },
    encode: (spans, { otlp, resource }) =>
      otlp.traces({ resourceSpans: [{ resource, scopeSpans: [{ scope, spans: spans.map(encode) }] }] })
  })
  return { add, lose: (spans) => lose(spans, "they could not be read from the store") }
})
