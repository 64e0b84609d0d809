/**
 * Exports items over OTLP/HTTP, in batches.
 *
 * ```
 *   add(item) --> queue (in memory, bounded) --every scheduleDelay, or when a batch is full--> encode --> POST --> the collector
 *                   \--> full: the item is lost       \--> no success within the timeout, retries included: the batch is lost
 * ```
 *
 * `add` never waits. Lost items are counted, and logged once for each outage. Only the shutdown waits for the last items, for at most
 * {@link FLUSH_TIMEOUT}.
 */
import * as Effect from "effect/Effect"
import { type HttpBody, HttpClient, HttpClientRequest } from "effect/http"
import * as Latch from "effect/Latch"
import { OtlpResource, OtlpSerialization } from "effect/observability"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { Identity } from "./OtelSdk.ts"
import type { BatchSettings } from "./OtlpConfig.ts"

/** The longest wait for the last items at shutdown, in milliseconds. */
const FLUSH_TIMEOUT = 3_000

/** Retries an export until the configured timeout. */
const RETRIES = Schedule.exponential("500 millis")

/** Notifications about the number of items. */
export interface Counts {
  readonly sent: (items: number) => void
  readonly lost: (items: number) => void
}

/** How the log lines about an outage name what is exported: `Traces cannot be sent`, `span`, and the variable for the size of the queue. */
export interface Words {
  readonly signal: string
  readonly item: string
  readonly queueSetting: string
}

/** Where items go. */
export interface BatchExport<A> {
  /** Queues an item. */
  readonly add: (item: A) => void
  /** Counts items that were lost before they could be added. */
  readonly lose: (items: number, reason: string) => void
}

/** What the encoding of every signal uses: the encoder of the configured protocol, and the resource that exports. */
export interface Encoding {
  readonly otlp: OtlpSerialization.OtlpSerialization["Service"]
  readonly resource: OtlpResource.Resource
}

/** Exports items until the scope closes. */
export const make = Effect.fnUntraced(function*<A>(options: {
  readonly settings: BatchSettings
  readonly identity: Identity
  readonly counts: Counts
  readonly words: Words
  readonly encode: (items: ReadonlyArray<A>, encoding: Encoding) => HttpBody.HttpBody
}): Effect.fn.Return<BatchExport<A>, never, HttpClient.HttpClient | Scope.Scope> {
  const { counts, encode, identity, settings, words } = options
  const encoding: Encoding = {
    otlp: yield* Effect.provide(
      OtlpSerialization.OtlpSerialization,
      settings.protocol === "http/json" ? OtlpSerialization.layerJson : OtlpSerialization.layerProtobuf
    ),
    resource: OtlpResource.make({
      serviceName: settings.serviceName ?? identity.serviceName,
      attributes: { ...identity.attributes, ...settings.resource }
    })
  }
  const context = yield* Effect.context()
  const log = (line: Effect.Effect<void>) => void Effect.runForkWith(context)(line)
  const client = (yield* HttpClient.HttpClient).pipe(
    HttpClient.tap((response) => Effect.ignore(response.arrayBuffer)),
    HttpClient.filterStatusOk,
    HttpClient.retryTransient({ schedule: RETRIES })
  )
  const request = HttpClientRequest.post(settings.url, { headers: Redacted.value(settings.headers) })

  const queue: Array<A> = []
  /** The number of items that were lost in the current outage. */
  let lostInOutage = 0
  const batchIsFull = yield* Latch.make(false)

  const lose = (items: number, reason: string) => {
    counts.lost(items)
    if (lostInOutage === 0) {
      log(Effect.logWarning(
        `${words.signal} cannot be sent to ${settings.url}: ${reason}. Jobs continue; ${words.item}s are lost until the collector responds. ` +
          "Check OTEL_EXPORTER_OTLP_ENDPOINT, or unset it."
      ))
    }
    lostInOutage += items
  }

  const recovered = () => {
    const lost = lostInOutage
    if (lost === 0) return
    lostInOutage = 0
    log(Effect.logInfo(`${words.signal} are sent again; ${lost} ${words.item}${lost === 1 ? " was" : "s were"} lost.`))
  }

  const send = (items: ReadonlyArray<A>) => {
    const body = HttpClientRequest.setBody(request, encode(items, encoding))
    const compressed = settings.compression === "gzip" ? HttpClientRequest.compressBody(body, "gzip") : Effect.succeed(body)
    return Effect.flatMap(compressed, client.execute).pipe(
      Effect.timeout(settings.timeout),
      Effect.matchEager({
        onSuccess: () => {
          counts.sent(items.length)
          recovered()
        },
        onFailure: (error) => lose(items.length, error.message)
      }),
      Effect.withTracerEnabled(false)
    )
  }

  const oneAtATime = Semaphore.makeUnsafe(1)

  /** Sends the queued items, in batches. */
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
      orElse: () => Effect.logWarning(`The last ${words.item}s were not sent within ${FLUSH_TIMEOUT} ms and are lost.`)
    })
  )

  return {
    add: (item) => {
      if (queue.length >= settings.maxQueueSize) return lose(1, `the ${words.item} queue is full (${words.queueSetting})`)
      queue.push(item)
      if (queue.length >= settings.maxBatchSize) batchIsFull.openUnsafe()
    },
    lose
  }
})

/** Nanoseconds since 1970. A number cannot hold them exactly. */
export const nanosOf = (millis: number): string => {
  const whole = Math.floor(millis)
  return `${whole}${String(Math.min(999_999, Math.round((millis - whole) * 1e6))).padStart(6, "0")}`
}
