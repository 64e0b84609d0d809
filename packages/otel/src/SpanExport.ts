/**
 * Exports spans that are made after the fact, with their own ids and times, over OTLP/HTTP. It uses Effect's encoder and no OpenTelemetry
 * package. For the spans of running code, see `OtelSdk`.
 *
 * ```
 *   add(span) --> queue (in memory, bounded) --every scheduleDelay, or when a batch is full--> encode --> POST --> the collector
 *                   \--> full: the span is lost       \--> no success within the timeout, retries included: the batch is lost
 * ```
 *
 * `add` never waits. Lost spans are counted, and logged once for each outage. Only the shutdown waits for the last spans, for at most
 * {@link FLUSH_TIMEOUT}.
 */
import * as Effect from "effect/Effect"
import { HttpClient, HttpClientRequest } from "effect/http"
import * as Latch from "effect/Latch"
import { OtlpResource, OtlpSerialization, type OtlpTracer } from "effect/observability"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { Identity } from "./OtelSdk.ts"
import type * as OtlpConfig from "./OtlpConfig.ts"

/** The longest wait for the last spans at shutdown, in milliseconds. */
const FLUSH_TIMEOUT = 3_000

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

/** Notifications about the number of spans. */
export interface Counts {
  readonly sent: (spans: number) => void
  readonly lost: (spans: number) => void
}

type OtlpSpan = OtlpTracer.ScopeSpan["spans"][number] & { readonly traceState?: string }

/** Nanoseconds since 1970. A number cannot hold them exactly. */
const nanosOf = (millis: number): string => {
  const whole = Math.floor(millis)
  return `${whole}${String(Math.min(999_999, Math.round((millis - whole) * 1e6))).padStart(6, "0")}`
}

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
    startTimeUnixNano: nanosOf(span.start),
    endTimeUnixNano: nanosOf(Math.max(span.start, span.end)),
    attributes: OtlpResource.entriesToAttributes(attributes),
    droppedAttributesCount: 0,
    events: [],
    droppedEventsCount: 0,
    status: span.error === undefined ? { code: UNSET } : { code: ERROR, message: span.error.message },
    links: span.links.map((spanId) => ({ traceId: span.traceId, spanId, attributes: [], droppedAttributesCount: 0 })),
    droppedLinksCount: 0
  }
}

/** Retries an export until the configured timeout. */
const RETRIES = Schedule.exponential("500 millis")

/** Exports spans as the settings specify, until the scope closes. */
export const make = Effect.fnUntraced(function*(options: {
  readonly settings: OtlpConfig.Settings
  readonly identity: Identity
  /** The instrumentation scope of the spans. */
  readonly scope: { readonly name: string; readonly version?: string }
  readonly counts: Counts
}): Effect.fn.Return<SpanExport, never, HttpClient.HttpClient | Scope.Scope> {
  const { counts, identity, scope, settings } = options
  const context = yield* Effect.context()
  const log = (line: Effect.Effect<void>) => void Effect.runForkWith(context)(line)
  const { traces } = yield* Effect.provide(
    OtlpSerialization.OtlpSerialization,
    settings.protocol === "http/json" ? OtlpSerialization.layerJson : OtlpSerialization.layerProtobuf
  )
  const resource = OtlpResource.make({
    serviceName: settings.serviceName ?? identity.serviceName,
    attributes: { ...identity.attributes, ...settings.resource }
  })
  const client = (yield* HttpClient.HttpClient).pipe(
    HttpClient.tap((response) => Effect.ignore(response.arrayBuffer)),
    HttpClient.filterStatusOk,
    HttpClient.retryTransient({ schedule: RETRIES })
  )
  const request = HttpClientRequest.post(settings.url, { headers: Redacted.value(settings.headers) })

  const queue: Array<FinishedSpan> = []
  /** The number of spans that were lost in the current outage. */
  let lostInOutage = 0
  const batchIsFull = yield* Latch.make(false)

  const lose = (spans: number, reason: string) => {
    counts.lost(spans)
    if (lostInOutage === 0) {
      log(Effect.logWarning(
        `Traces cannot be sent to ${settings.url}: ${reason}. Jobs continue; spans are lost until the collector responds. ` +
          "Check OTEL_EXPORTER_OTLP_ENDPOINT, or unset it."
      ))
    }
    lostInOutage += spans
  }

  const recovered = () => {
    const lost = lostInOutage
    if (lost === 0) return
    lostInOutage = 0
    log(Effect.logInfo(`Traces are sent again; ${lost} ${lost === 1 ? "span was" : "spans were"} lost.`))
  }

  const send = (spans: ReadonlyArray<FinishedSpan>) => {
    const body = HttpClientRequest.setBody(
      request,
      traces({ resourceSpans: [{ resource, scopeSpans: [{ scope, spans: spans.map(encode) }] }] })
    )
    const compressed = settings.compression === "gzip" ? HttpClientRequest.compressBody(body, "gzip") : Effect.succeed(body)
    return Effect.flatMap(compressed, client.execute).pipe(
      Effect.timeout(settings.timeout),
      Effect.matchEager({
        onSuccess: () => {
          counts.sent(spans.length)
          recovered()
        },
        onFailure: (error) => lose(spans.length, error.message)
      }),
      Effect.withTracerEnabled(false)
    )
  }

  const oneAtATime = Semaphore.makeUnsafe(1)

  /** Sends the queued spans, in batches. */
  const drain = oneAtATime.withPermits(1)(Effect.whileLoop({
    while: () => queue.length > 0,
    body: () => send(queue.splice(0, settings.maxBatchSize)),
    step: () => {}
  }))

  yield* Effect.raceFirst(Effect.sleep(settings.scheduleDelay), batchIsFull.await).pipe(
    Effect.andThen(batchIsFull.close),
    Effect.andThen(drain),
    Effect.forever,
    Effect.forkScoped
  )
  yield* Effect.addFinalizer(() =>
    Effect.timeoutOrElse(drain, {
      duration: FLUSH_TIMEOUT,
      orElse: () => Effect.logWarning(`The last spans were not sent within ${FLUSH_TIMEOUT} ms and are lost.`)
    })
  )

  return {
    add: (span) => {
      if (queue.length >= settings.maxQueueSize) return lose(1, "the span queue is full (OTEL_BSP_MAX_QUEUE_SIZE)")
      queue.push(span)
      if (queue.length >= settings.maxBatchSize) batchIsFull.openUnsafe()
    },
    lose: (spans) => lose(spans, "they could not be read from the store")
  }
})
