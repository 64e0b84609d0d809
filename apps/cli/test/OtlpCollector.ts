/**
 * A span collector on the loopback interface, which receives OTLP as JSON.
 */
import { createServer } from "node:http"
import { until } from "./PlatformProcess.ts"

/** A received span. */
export interface Span {
  readonly name: string
  readonly kind: number
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: ReadonlyArray<{ readonly key: string; readonly value: { readonly [kind: string]: unknown } }>
  readonly links: ReadonlyArray<{ readonly spanId: string }>
  readonly status: { readonly code?: number; readonly message?: string }
}

/** All spans in an export, at any depth. */
const spansIn = (value: unknown): ReadonlyArray<Span> => {
  if (typeof value !== "object" || value === null) return []
  if ("spanId" in value && "startTimeUnixNano" in value) return [value as Span]
  return Object.values(value).flatMap(spansIn)
}

/** A received log record. */
export interface LogRecord {
  readonly traceId?: string
  readonly spanId?: string
  readonly severityText: string
  readonly body: { readonly stringValue: string }
  readonly attributes: ReadonlyArray<unknown>
}

/** All log records in an export, at any depth. */
const recordsIn = (value: unknown): ReadonlyArray<LogRecord> => {
  if (typeof value !== "object" || value === null) return []
  if ("severityText" in value) return [value as LogRecord]
  return Object.values(value).flatMap(recordsIn)
}

/** The value of an attribute. */
export const attribute = (span: Span, key: string): unknown => {
  const found = span.attributes.find((one) => one.key === key)
  return found === undefined ? undefined : Object.values(found.value)[0]
}

/** The collector that {@link listen} starts. */
export class OtlpCollector {
  readonly url: string
  readonly spans: Array<Span> = []
  /** The bodies that were sent to paths other than `/v1/traces`, by path. */
  readonly others: Array<{ readonly path: string; readonly body: unknown }> = []
  readonly close: () => void

  constructor(url: string, close: () => void) {
    this.url = url
    this.close = close
  }

  /** The variables with which a process sends its spans here, without delay. */
  get variables(): Readonly<Record<string, string>> {
    return {
      OTEL_EXPORTER_OTLP_ENDPOINT: this.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_BSP_SCHEDULE_DELAY: "10"
    }
  }

  receive(path: string, body: unknown): void {
    if (path === "/v1/traces") this.spans.push(...spansIn(body))
    else this.others.push({ path, body })
  }

  /** The received log records. */
  get records(): ReadonlyArray<LogRecord> {
    return this.others.filter(({ path }) => path === "/v1/logs").flatMap(({ body }) => recordsIn(body))
  }

  /** The spans with this name in a trace, by start. */
  named(traceId: string, name: string): ReadonlyArray<Span> {
    return this.spans.filter((one) => one.traceId === traceId && one.name === name)
      .toSorted((a, b) => Number(BigInt(a.startTimeUnixNano) - BigInt(b.startTimeUnixNano)))
  }

  /** Waits until the trace has this number of spans with the name, and returns them by start. */
  wait(traceId: string, name: string, count = 1): Promise<ReadonlyArray<Span>> {
    return until(`${count} spans ${name}`, () => {
      const found = this.named(traceId, name)
      return found.length >= count ? found : undefined
    }, 60_000)
  }

  /** The trace as text: each span below its parent, with its start and its length. */
  tree(traceId: string): string {
    const all = this.spans.filter((one) => one.traceId === traceId)
    const ids = new Set(all.map(({ spanId }) => spanId))
    const first = Math.min(...all.map((one) => Number(one.startTimeUnixNano) / 1e6))
    const lines = (parent: (span: Span) => boolean, depth: number): ReadonlyArray<string> =>
      all.filter(parent).toSorted((a, b) => Number(BigInt(a.startTimeUnixNano) - BigInt(b.startTimeUnixNano))).flatMap((one) => {
        const [start, end] = [Number(one.startTimeUnixNano) / 1e6, Number(one.endTimeUnixNano) / 1e6]
        const outcome = JSON.stringify(attribute(one, "error.type") ?? attribute(one, "stint.job.status") ?? "")
        return [
          `${"  ".repeat(depth)}${one.name}`.padEnd(44) +
          `${(start - first).toFixed(1).padStart(9)} ms +${(end - start).toFixed(1)} ms  ${outcome}${
            one.links.length > 0 ? "  (link)" : ""
          }`,
          ...lines((child) => child.parentSpanId === one.spanId, depth + 1)
        ]
      })
    return lines((one) => one.parentSpanId === undefined || !ids.has(one.parentSpanId), 0).join("\n")
  }

  [Symbol.dispose](): void {
    this.close()
  }
}

/** Starts a collector on a free port. */
export const listen = async (): Promise<OtlpCollector> => {
  const server = createServer((request, response) => {
    let text = ""
    request.setEncoding("utf8").on("data", (part: string) => {
      text += part
    }).on("end", () => {
      collector.receive(request.url ?? "", JSON.parse(text))
      response.setHeader("content-type", "application/json").end("{}")
    })
  })
  await new Promise<void>((up) => server.listen(0, "127.0.0.1", up))
  const address = server.address()
  const collector = new OtlpCollector(
    `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`,
    () => {
      server.closeAllConnections()
      server.close()
    }
  )
  return collector
}
