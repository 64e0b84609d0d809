/**
 * One named timing of a job: an entry in the report if there is a debugger, and a span if there is a tracer.
 *
 * ```
 *                            job's context has JobTimings      has a tracer
 *   begin(context, name) --> an entry of the report       and  a span          --end--> both, with the same duration
 *                        \-> undefined if it has neither
 * ```
 *
 * The context contains the parent: `EnclosingTiming` for the report, `ParentSpan` for the trace. Line timers run no code of their own, so they
 * cannot provide a context; open line timers are listed by the context in which they were started.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as Tracer from "effect/Tracer"
import { EnclosingTiming, type Entry, JobTimings } from "./JobTimings.ts"

/** A started timing. */
export interface Timing {
  /** The services to add to the context of the timed code. */
  readonly services: Context.Context<never>
  /** Ends the timing; the span gets the exit. Later calls have no effect. */
  readonly end: (exit: Exit.Exit<unknown, unknown>) => void
}

interface OpenLine {
  readonly entry: Entry | undefined
  readonly span: Tracer.Span | undefined
}

/** The open line timers of each context, in the order of their start. */
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

/** The tracer, if there is one that uses spans: Effect's native tracer discards them. */
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

/** Starts the timing of a function or an effect. Undefined without a debugger or tracer. */
export const begin = (context: Context.Context<never>, name: string): Timing | undefined => make(context, name, false)

/** Starts the timing of lines. Later timings in the same context are nested in it. */
export const beginLine = (context: Context.Context<never>, name: string): Timing | undefined => make(context, name, true)
