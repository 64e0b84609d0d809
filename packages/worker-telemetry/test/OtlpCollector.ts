/**
 * A collector on the loopback address. It records the requests from OTLP exporters and decodes the spans of JSON requests.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { createServer } from "node:http"
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http"
import { gunzipSync } from "node:zlib"

const Attributes = Schema.Array(Schema.Struct({
  key: Schema.String,
  value: Schema.Struct({
    stringValue: Schema.optionalKey(Schema.String),
    intValue: Schema.optionalKey(Schema.Union([Schema.Number, Schema.String])),
    boolValue: Schema.optionalKey(Schema.Boolean)
  })
}))

const OtlpSpan = Schema.Struct({
  traceId: Schema.String,
  spanId: Schema.String,
  parentSpanId: Schema.optionalKey(Schema.String),
  traceState: Schema.optionalKey(Schema.String),
  name: Schema.String,
  kind: Schema.Int,
  startTimeUnixNano: Schema.String,
  endTimeUnixNano: Schema.String,
  attributes: Attributes,
  events: Schema.Array(Schema.Struct({ name: Schema.String, attributes: Attributes })),
  status: Schema.Struct({ code: Schema.Int, message: Schema.optionalKey(Schema.String) })
})

const decodeTraces = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({
  resourceSpans: Schema.Array(Schema.Struct({
    resource: Schema.Struct({ attributes: Attributes }),
    scopeSpans: Schema.Array(Schema.Struct({ scope: Schema.Struct({ name: Schema.String }), spans: Schema.Array(OtlpSpan) }))
  }))
})))

const valuesOf = (attributes: typeof Attributes.Type): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, value.stringValue ?? value.boolValue ?? Number(value.intValue)]))

/** A received span. */
export interface Span extends Omit<typeof OtlpSpan.Type, "attributes" | "events"> {
  readonly attributes: Record<string, unknown>
  readonly events: ReadonlyArray<{ readonly name: string; readonly attributes: Record<string, unknown> }>
  readonly resource: Record<string, unknown>
  readonly scope: string
}

/** A received request, with its body decompressed. */
export interface Request {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

/** How to respond to the next requests. */
type Fault = number | "hang"

const readBody = async (request: IncomingMessage): Promise<Buffer> => {
  const parts: Array<Buffer> = []
  for await (const part of request) parts.push(Buffer.from(part))
  const body = Buffer.concat(parts)
  return request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body
}

/** The collector that {@link make} creates. */
export class Collector {
  readonly requests: Array<Request> = []
  readonly url: string
  readonly #faults: Array<Fault>
  #watchers: Array<() => void> = []

  constructor(url: string, faults: Array<Fault>) {
    this.url = url
    this.#faults = faults
  }

  /** Sets the responses to the next requests: a status, or no response at all. */
  failNext(...faults: ReadonlyArray<Fault>): void {
    this.#faults.push(...faults)
  }

  /** The spans of all accepted JSON requests. */
  readonly spans: Array<Span> = []

  named(name: string): Span {
    const span = this.spans.find((one) => one.name === name)
    if (span === undefined) throw new Error(`no span ${name} among ${this.spans.map((one) => one.name).join(", ")}`)
    return span
  }

  /** Waits until the condition holds. */
  until(check: () => boolean): Effect.Effect<void> {
    return Effect.callback((resume) => {
      const watcher = () => {
        if (!check()) return
        this.#watchers = this.#watchers.filter((one) => one !== watcher)
        resume(Effect.void)
      }
      this.#watchers.push(watcher)
      watcher()
    })
  }

  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request)
    this.requests.push({ path: request.url ?? "", headers: request.headers, body })
    const fault = this.#faults.shift()
    if (fault === undefined) {
      if (request.headers["content-type"] === "application/json") this.#keep(body)
      response.writeHead(200, { "content-type": request.headers["content-type"] })
      response.end(request.headers["content-type"] === "application/json" ? "{}" : undefined)
    } else if (fault !== "hang") {
      response.writeHead(fault)
      response.end()
    }
    for (const watcher of [...this.#watchers]) watcher()
  }

  #keep(body: Buffer): void {
    for (const { resource, scopeSpans } of decodeTraces(body.toString()).resourceSpans) {
      for (const { scope, spans } of scopeSpans) {
        for (const span of spans) {
          this.spans.push({
            ...span,
            attributes: valuesOf(span.attributes),
            events: span.events.map(({ attributes, name }) => ({ name, attributes: valuesOf(attributes) })),
            resource: valuesOf(resource.attributes),
            scope: scope.name
          })
        }
      }
    }
  }
}

/** A collector on a free port, which closes with the test. */
export const make = Effect.acquireRelease(
  Effect.callback<{ readonly collector: Collector; readonly stop: Effect.Effect<void> }>((resume) => {
    const server = createServer((request, response) => void collector.serve(request, response))
    let collector: Collector
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      collector = new Collector(`http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`, [])
      const stop = Effect.callback<void>((stopped) => {
        server.close(() => stopped(Effect.void))
        server.closeAllConnections()
      })
      resume(Effect.succeed({ collector, stop }))
    })
  }),
  ({ stop }) => stop
).pipe(Effect.map(({ collector }) => collector))
