/**
 * A stretch of time with a name, of a job: noted for the report where there is a debugger, and a span where there is a tracer.
 *
 * ```
 *                            job's context has JobTimings      has a tracer
 *   begin(context, name) --> an entry of the report       and  a span          --end--> both, with the same duration
 *                        \-> undefined, where it has neither: there is nothing to do
 * ```
 *
 * The context says what a timing is a part of: `EnclosingTiming` for the report, `ParentSpan` for the trace. Lines have no context of their
 * own, as nothing is called for them; those that are open stand in a list beside the context in which they were begun.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"
import { EnclosingTiming, type Entry, JobTimings } from "./JobTimings.ts"

/** A stretch that was begun. */
export interface Timing {
  /** What is to be added to the context of whatever runs within it. */
  readonly services: Context.Context<never>
  /** Ends it. The exit says how, for the span. Only the first call counts. */
  readonly end: (exit: Exit.Exit<unknown, unknown>) => void
}

interface OpenLine {
  readonly entry: Entry | undefined
  readonly span: Tracer.Span | undefined
}

/** The lines that are open, in the order of their beginnings. */
const lines = new WeakMap<Context.Context<never>, Array<OpenLine>>()

const push = (context: Context.Context<never>, open: OpenLine): void => {
  const list = lines.get(context)
  if (list === undefined) lines.set(context, [open])
  else list.push(open)
}

const remove = (context: Context.Context<never>, open: OpenLine): void => {
  const list = lines.get(context)
  const index = list?.lastIndexOf(open) ?? -1
  if (index >= 0) list?.splice(index, 1)
}

/** Whoever wants to have spans: Effect's own tracer keeps them for nobody. */
const tracerOf = (context: Context.Context<never>): Tracer.Tracer | undefined => {
  const tracer = Context.get(context, Tracer.Tracer)
  return tracer === Tracer.nativeTracer || !Context.get(context, References.TracerEnabled) ? undefined : tracer
}

const startSpan = (context: Context.Context<never>, tracer: Tracer.Tracer, name: string, outer: Tracer.Span | undefined) => {
  const parent = outer === undefined ? Context.getOption(context, Tracer.ParentSpan) : Option.some<Tracer.AnySpan>(outer)
  const startTime = Context.get(context, Clock.Clock).currentTimeNanosUnsafe()
  const span = tracer.span({
    name,
    parent,
    annotations: Context.empty(),
    links: [],
    startTime,
    kind: "internal",
    root: false,
    sampled: Option.isNone(parent) || parent.value.sampled
  })
  for (const [key, value] of Object.entries(Context.get(context, References.TracerSpanAnnotations))) span.attribute(key, value)
  return { span, startTime }
}

const make = (context: Context.Context<never>, name: string, isLine: boolean): Timing | undefined => {
  const timings = Context.getOrUndefined(context, JobTimings)
  const tracer = tracerOf(context)
  if (timings === undefined && tracer === undefined) return undefined

  const clock = Context.get(context, Clock.Clock)
  const outer = lines.get(context)?.at(-1)
  const traced = tracer === undefined ? undefined : startSpan(context, tracer, name, outer?.span)
  const start = clock.monotonicTimeNanosUnsafe()
  let ended = false

  const endAt = (at: bigint, exit: Exit.Exit<unknown, unknown>) => {
    if (ended) return
    ended = true
    if (isLine) remove(context, open)
    if (entry !== undefined) timings?.end(entry, at)
    traced?.span.end(traced.startTime + (at - start), exit)
  }
  const entry = timings?.open(
    name,
    start,
    outer?.entry ?? Context.getOrUndefined(context, EnclosingTiming),
    (at) => endAt(at, Exit.void)
  )
  const open: OpenLine = { entry, span: traced?.span }
  if (isLine) push(context, open)

  let services: Context.Context<never> = Context.empty()
  if (entry !== undefined) services = Context.add(services, EnclosingTiming, entry)
  if (traced !== undefined) services = Context.add(services, Tracer.ParentSpan, traced.span)
  return { services, end: (exit) => endAt(clock.monotonicTimeNanosUnsafe(), exit) }
}

/** Begins a stretch that has an inside: a function, an effect. Undefined: nobody wants to know. */
export const begin = (context: Context.Context<never>, name: string): Timing | undefined => make(context, name, false)

/** Begins a stretch that has none: some lines. What begins after it, in the same context, is a part of it. */
export const beginLine = (context: Context.Context<never>, name: string): Timing | undefined => make(context, name, true)
