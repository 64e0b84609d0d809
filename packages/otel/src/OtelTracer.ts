/**
 * The bridge between Effect's `Tracer` and the OpenTelemetry API that users' own instrumentation calls.
 *
 * ```
 *   Effect                                        OpenTelemetry
 *   withSpan("handler") --- span() ------------>  startSpan, with the parent's context
 *   every step of a fiber - context() --------->  context.with(the span's context)     so that startActiveSpan, and
 *                                                                                      instrumented http, find their parent
 *   runs an effect from plain code  <-----------  the active span
 * ```
 *
 * The OpenTelemetry modules are passed as an argument, because this package imports them only when a program uses traces.
 */
import type * as Otel from "@opentelemetry/api"
import type * as OtelCore from "@opentelemetry/core"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import type * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Tracer from "effect/Tracer"

/** The loaded OpenTelemetry modules. */
export interface OtelModules {
  readonly api: typeof Otel
  readonly core: typeof OtelCore
}

/** Functions that the bridge uses to query the program about its spans and fibers. */
export interface TracerHooks {
  /**
   * Whether only a runtime's own steps run in the span with these annotations. The bridge does not make such a span active for plain code,
   * because that adds a cost to every step of a fiber. Default: false for every span.
   */
  readonly isRuntimeOnly?: (annotations: Context.Context<never>) => boolean
  /** Whether the fiber runs plain code within a runtime-only span. If so, that span is made active anyway. Default: false. */
  readonly isPluginCode?: (fiber: Fiber.Fiber<unknown, unknown>) => boolean
  /** The W3C `tracestate` of a span that came from outside the process. Effect's spans do not have one. Default: none. */
  readonly traceStateOf?: (span: Tracer.AnySpan) => string | undefined
}

const SECOND = 1_000_000_000n

const hrTime = (nanos: bigint): Otel.HrTime => [Number(nanos / SECOND), Number(nanos % SECOND)]

/** Converts a value to one that an attribute can hold. Unsupported values become JSON text. */
const attributeOf = (value: unknown): string | number | boolean => {
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return value
  try {
    // The JSON text of a `Redacted` value does not contain the secret.
    return JSON.stringify(value) ?? String(value)
  } catch {
    return String(value)
  }
}

const attributesOf = (record: Readonly<Record<string, unknown>>): Otel.Attributes =>
  Object.fromEntries(Object.entries(record).map(([key, value]) => [key, attributeOf(value)]))

/** OpenTelemetry's name for an error without a type. */
const OTHER = "_OTHER"

const textIn = (value: object, ...names: ReadonlyArray<string>): string | undefined => {
  for (const name of names) {
    const found: unknown = Reflect.get(value, name)
    if (typeof found === "string" && found !== "") return found
  }
  return undefined
}

/** The name of an error's class when the error does not set one. */
const nameOf = (error: Error): string => error.name === "Error" ? error.constructor.name : error.name

/** The type and the message of a failure, and the `Error` object if the failure is one. */
const failureOf = (
  cause: Cause.Cause<unknown>
): { readonly type: string; readonly message: string; readonly error: Error | undefined } => {
  const thrown = Cause.squash(cause)
  if (thrown instanceof Error) {
    return { type: nameOf(thrown), message: thrown.message === "" ? thrown.name : thrown.message, error: thrown }
  }
  if (typeof thrown !== "object" || thrown === null) {
    return { type: OTHER, message: typeof thrown === "string" ? thrown : String(attributeOf(thrown)), error: undefined }
  }
  return {
    type: textIn(thrown, "type", "_tag") ?? OTHER,
    message: textIn(thrown, "message") ?? String(attributeOf(thrown)),
    error: undefined
  }
}

const NO_ATTRIBUTES: ReadonlyMap<string, unknown> = new Map()

/** A span that is both an Effect span and an OpenTelemetry span. */
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
  /** The context in which the span started. */
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
    this.isRuntimeOnly = bridge.isRuntimeOnly(options.annotations)
    if (Option.isSome(options.parent)) {
      this.parent = options.parent
      this.#outer = bridge.contextOf(options.parent.value)
    } else {
      // Without an Effect parent, the parent is the span that was active in the plain code that ran the effect.
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

  /** The context that is active while the span's effect runs. */
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
        const { error, message, type } = failureOf(exit.cause)
        this.span.setAttribute("error.type", type)
        if (error !== undefined) this.span.recordException(error, time)
        this.span.setStatus({ code: this.#bridge.api.SpanStatusCode.ERROR, message })
      }
    }
    this.span.end(time)
  }
}

/** The state that all spans of one tracer share. */
class Bridge {
  readonly api: typeof Otel
  readonly #core: typeof OtelCore
  readonly tracer: Otel.Tracer
  readonly kinds: Readonly<Record<Tracer.SpanKind, Otel.SpanKind>>
  /**
   * The contexts of spans that the bridge did not create, such as the caller's span. Cached, because the bridge needs a context at every
   * step of a fiber.
   */
  readonly #foreign = new WeakMap<Tracer.AnySpan, Otel.Context>()

  readonly isRuntimeOnly: (annotations: Context.Context<never>) => boolean
  readonly #traceStateOf: (span: Tracer.AnySpan) => string | undefined

  constructor({ api, core }: OtelModules, tracer: Otel.Tracer, { isRuntimeOnly, traceStateOf }: TracerHooks) {
    this.isRuntimeOnly = isRuntimeOnly ?? (() => false)
    this.#traceStateOf = traceStateOf ?? (() => undefined)
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
    const state = this.#traceStateOf(span)
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

  /** The span of an OpenTelemetry context, as an Effect span. */
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
 * The span to make active for plain code. Skips spans that are not propagated, and runtime-only spans unless a plugin's code is running.
 */
const activeOf = (
  fiber: Fiber.Fiber<unknown, unknown>,
  isPluginCode: (fiber: Fiber.Fiber<unknown, unknown>) => boolean
): Tracer.AnySpan | undefined => {
  let current = fiber.cache.span
  while (current !== undefined) {
    if (current instanceof OtelSpan) return current.isRuntimeOnly && !isPluginCode(fiber) ? undefined : current
    if (!Context.get(current.annotations, Tracer.DisablePropagation)) return current
    current = current._tag === "Span" ? Option.getOrUndefined(current.parent) : undefined
  }
  return current
}

/** An Effect tracer over an OpenTelemetry tracer. */
export interface OtelTracer {
  readonly tracer: Tracer.Tracer
  /** The span that is active in plain code, as an Effect span. */
  readonly activeSpan: () => Tracer.AnySpan | undefined
}

/** The bridge over an OpenTelemetry tracer. */
export const make = (modules: OtelModules, tracer: Otel.Tracer, hooks: TracerHooks = {}): OtelTracer => {
  const { api } = modules
  const { isPluginCode = () => false } = hooks
  const bridge = new Bridge(modules, tracer, hooks)
  return {
    tracer: Tracer.make({
      span: (options) => new OtelSpan(bridge, options),
      context: (primitive, fiber) => {
        const active = activeOf(fiber, isPluginCode)
        return active === undefined
          ? primitive["~effect/Effect/evaluate"](fiber)
          : api.context.with(bridge.contextOf(active), () => primitive["~effect/Effect/evaluate"](fiber))
      }
    }),
    activeSpan: () => bridge.externalOf(api.context.active())
  }
}
