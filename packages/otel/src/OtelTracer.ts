/**
 * Effect's spans as OpenTelemetry's: the bridge between an Effect `Tracer` and the API that users' own instrumentation speaks.
 *
 * ```
 *   Effect                                        OpenTelemetry
 *   withSpan("handler") --- span() ------------>  startSpan, with the parent's context
 *   every step of a fiber - context() --------->  context.with(the span's context)     so that startActiveSpan, and
 *                                                                                      instrumented http, find their parent
 *   runs an effect from plain code  <-----------  the active span
 * ```
 *
 * OpenTelemetry comes in as a value: this module, like the whole package, imports nothing of it before somebody wants traces.
 */
import type * as Otel from "@opentelemetry/api"
import type * as OtelCore from "@opentelemetry/core"
import { PluginCode, RuntimeOnly, TraceState } from "@stint/worker/Spans"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import type * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"

/** What is needed of OpenTelemetry, loaded. */
export interface OtelModules {
  readonly api: typeof Otel
  readonly core: typeof OtelCore
}

const SECOND = 1_000_000_000n

const hrTime = (nanos: bigint): Otel.HrTime => [Number(nanos / SECOND), Number(nanos % SECOND)]

/** What an attribute can hold; anything else as its JSON text. */
const attributeOf = (value: unknown): string | number | boolean => {
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return value
  try {
    // Secrets (`Redacted`) have a JSON text that shows nothing.
    return JSON.stringify(value) ?? String(value)
  } catch {
    return String(value)
  }
}

const attributesOf = (record: Readonly<Record<string, unknown>>): Otel.Attributes =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, attributeOf(value)]))

/** What failed, in words, and the error if it is one. */
const failureOf = (cause: Cause.Cause<unknown>): { readonly message: string; readonly error: Error | undefined } => {
  const thrown = Cause.squash(cause)
  if (thrown instanceof Error) return { message: thrown.message === "" ? thrown.name : thrown.message, error: thrown }
  const said = typeof thrown === "object" && thrown !== null && "message" in thrown ? thrown.message : thrown
  return { message: typeof said === "string" ? said : String(attributeOf(said)), error: undefined }
}

const NO_ATTRIBUTES: ReadonlyMap<string, unknown> = new Map()

/** One span, as both sides know it. */
class OtelSpan implements Tracer.Span {
  readonly _tag = "Span"
  readonly name: string
  readonly kind: Tracer.SpanKind
  readonly parent: Option.Option<Tracer.AnySpan>
  readonly annotations: Context.Context<never>
  readonly links: Array<Tracer.SpanLink>
  readonly spanId: string
  readonly traceId: string
  readonly sampled: boolean
  status: Tracer.SpanStatus
  readonly span: Otel.Span
  readonly isRuntimeOnly: boolean
  readonly #bridge: Bridge
  /** What the span began in. */
  readonly #outer: Otel.Context
  #active: Otel.Context | undefined
  #attributes: Map<string, unknown> | undefined

  constructor(bridge: Bridge, options: Parameters<Tracer.Tracer["span"]>[0]) {
    const { api } = bridge
    this.#bridge = bridge
    this.name = options.name
    this.kind = options.kind
    this.annotations = options.annotations
    this.links = options.links
    this.status = { _tag: "Started", startTime: options.startTime }
    this.isRuntimeOnly = Context.get(options.annotations, RuntimeOnly)
    if (Option.isSome(options.parent)) {
      this.parent = options.parent
      this.#outer = bridge.contextOf(options.parent.value)
    } else {
      // Without a parent of Effect's, a span of plain code that the effect was run from is the parent.
      const active = api.context.active()
      const found = options.root ? undefined : bridge.externalOf(active)
      this.parent = found === undefined ? options.parent : Option.some(found)
      this.#outer = found === undefined ? api.trace.deleteSpan(active) : active
    }
    this.span = bridge.tracer.startSpan(options.name, {
      startTime: hrTime(options.startTime),
      kind: bridge.kinds[options.kind],
      ...(options.links.length === 0 ? {} : { links: options.links.map((link) => bridge.linkOf(link)) })
    }, this.#outer)
    const { spanId, traceFlags, traceId } = this.span.spanContext()
    this.spanId = spanId
    this.traceId = traceId
    this.sampled = (traceFlags & api.TraceFlags.SAMPLED) !== 0
  }

  /** What is active while the span's effect runs. */
  get active(): Otel.Context {
    return this.#active ??= this.#bridge.api.trace.setSpan(this.#outer, this.span)
  }

  get attributes(): ReadonlyMap<string, unknown> {
    return this.#attributes ?? NO_ATTRIBUTES
  }

  attribute(key: string, value: unknown): void {
    if (this.status._tag === "Ended") return
    this.#attributes ??= new Map()
    this.#attributes.set(key, value)
    this.span.setAttribute(key, attributeOf(value))
  }

  event(name: string, startTime: bigint, attributes?: Record<string, unknown>): void {
    if (this.status._tag === "Ended") return
    this.span.addEvent(name, attributes === undefined ? {} : attributesOf(attributes), hrTime(startTime))
  }

  addLinks(links: ReadonlyArray<Tracer.SpanLink>): void {
    if (this.status._tag === "Ended") return
    for (const link of links) {
      this.links.push(link)
      this.span.addLink(this.#bridge.linkOf(link))
    }
  }

  end(endTime: bigint, exit: Exit.Exit<unknown, unknown>): void {
    if (this.status._tag === "Ended") return
    this.status = { _tag: "Ended", startTime: this.status.startTime, endTime, exit }
    const time = hrTime(endTime)
    if (exit._tag === "Failure" && this.span.isRecording()) {
      if (Cause.hasInterruptsOnly(exit.cause)) {
        this.span.setAttribute("effect.fiber.interrupted", true)
      } else {
        const { error, message } = failureOf(exit.cause)
        if (error !== undefined) this.span.recordException(error, time)
        this.span.setStatus({ code: this.#bridge.api.SpanStatusCode.ERROR, message })
      }
    }
    this.span.end(time)
  }
}

/** What all spans of one tracer share. */
class Bridge {
  readonly api: typeof Otel
  readonly #core: typeof OtelCore
  readonly tracer: Otel.Tracer
  readonly kinds: Readonly<Record<Tracer.SpanKind, Otel.SpanKind>>
  /** Contexts of spans that are not ours, such as the caller's: one is asked for at every step of a fiber. */
  readonly #foreign = new WeakMap<Tracer.AnySpan, Otel.Context>()

  constructor({ api, core }: OtelModules, tracer: Otel.Tracer) {
    this.api = api
    this.#core = core
    this.tracer = tracer
    this.kinds = {
      internal: api.SpanKind.INTERNAL,
      client: api.SpanKind.CLIENT,
      server: api.SpanKind.SERVER,
      producer: api.SpanKind.PRODUCER,
      consumer: api.SpanKind.CONSUMER
    }
  }

  spanContextOf(span: Tracer.AnySpan): Otel.SpanContext {
    if (span instanceof OtelSpan) return span.span.spanContext()
    const state = Context.getOrUndefined(span.annotations, TraceState)
    return {
      traceId: span.traceId,
      spanId: span.spanId,
      traceFlags: span.sampled ? this.api.TraceFlags.SAMPLED : this.api.TraceFlags.NONE,
      isRemote: span._tag === "ExternalSpan",
      ...(state === undefined ? {} : { traceState: new this.#core.TraceState(state) })
    }
  }

  contextOf(span: Tracer.AnySpan): Otel.Context {
    if (span instanceof OtelSpan) return span.active
    const known = this.#foreign.get(span)
    if (known !== undefined) return known
    const context = this.api.trace.setSpanContext(this.api.ROOT_CONTEXT, this.spanContextOf(span))
    this.#foreign.set(span, context)
    return context
  }

  linkOf({ attributes, span }: Tracer.SpanLink): Otel.Link {
    return { context: this.spanContextOf(span), attributes: attributesOf(attributes) }
  }

  /** The span of a context, for Effect. */
  externalOf(context: Otel.Context): Tracer.ExternalSpan | undefined {
    const found = this.api.trace.getSpanContext(context)
    if (found === undefined || !this.api.trace.isSpanContextValid(found)) return undefined
    const { spanId, traceFlags, traceId } = found
    const span = Tracer.externalSpan({ spanId, traceId, sampled: (traceFlags & this.api.TraceFlags.SAMPLED) !== 0 })
    this.#foreign.set(span, context)
    return span
  }
}

/**
 * The span whose context is to be active: those that a part of a program keeps to itself are passed over, and within those of the runtime
 * there is nobody to see it, but for plugins.
 */
const activeOf = (fiber: Fiber.Fiber<unknown, unknown>): Tracer.AnySpan | undefined => {
  let current = fiber.cache.span
  while (current !== undefined) {
    if (current instanceof OtelSpan) return current.isRuntimeOnly && !fiber.getRef(PluginCode) ? undefined : current
    if (!Context.get(current.annotations, Tracer.DisablePropagation)) return current
    current = current._tag === "Span" ? Option.getOrUndefined(current.parent) : undefined
  }
  return current
}

/** An Effect tracer over a tracer of OpenTelemetry, and how plain code's active span comes back to Effect. */
export interface OtelTracer {
  readonly tracer: Tracer.Tracer
  readonly activeSpan: () => Tracer.AnySpan | undefined
}

/** The two directions of the bridge. */
export const make = (loaded: OtelModules, tracer: Otel.Tracer): OtelTracer => {
  const { api } = loaded
  const bridge = new Bridge(loaded, tracer)
  return {
    tracer: Tracer.make({
      span: (options) => new OtelSpan(bridge, options),
      context: (primitive, fiber) => {
        const active = activeOf(fiber)
        return active === undefined
          ? primitive["~effect/Effect/evaluate"](fiber)
          : api.context.with(bridge.contextOf(active), () => primitive["~effect/Effect/evaluate"](fiber))
      }
    }),
    activeSpan: () => bridge.externalOf(api.context.active())
  }
}
