/**
 * The methods that connect the nodes of a pipeline. Each returns a new builder, so a pipeline is an immutable value that can be extended in several
 * ways.
 *
 * ```
 *   Builder<Input, Value, Results, R>
 *      .step("list", f)      f receives Value and Results        ->  Builder<Input, Out, Results & { list: Out }, R | services of f>
 *      .end(Page)            Value must fit Page                 ->  Pipeline
 * ```
 *
 * A method's types check one connection each. The checks are extra members of the argument's type (`Connections.ts`), so that the compiler
 * reports a wrong connection at the argument.
 */
import type { Runnable } from "@stint/worker/Runnable"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { DoesNotFit, Fits, FreeName, Recordable } from "./Connections.ts"
import type { Definition, Retry, Target } from "./Definition.ts"
import type { Journal } from "./Journal.ts"
import type { StepContext } from "./StepContext.ts"
import type * as StepKind from "./StepKind.ts"

/** A complete pipeline: a handler whose runs need a {@link Journal} in addition to the services of its steps. */
export interface Pipeline<Name extends string, I extends Schema.Constraint, O extends Schema.Constraint, out R>
  extends Runnable<R | Journal>
{
  readonly name: Name
  readonly input: I
  readonly output: O
  readonly error: typeof Schema.Never
  readonly streams: false
  readonly definition: Definition
}

/** The absence of an `output` Schema. */
export interface NoSchema {
  readonly "~no schema": never
}

/**
 * A step: a function that returns a value, a promise or an Effect; or an Effect. A conditional type, because the compiler would list all members of a
 * union in the error about a wrong connection.
 */
export type StepForm<F, Value, Results> = F extends Effect.Effect<unknown, unknown, unknown> ? unknown
  : (value: Value, results: Results, context: StepContext) => unknown

/** Like {@link StepForm}, or an endpoint. */
type EachForm<F, Value, Results> = F extends Target ? unknown : StepForm<F, Value, Results>

/** A stream: a function that returns a Stream or an async iterable, such as an async generator; or a streaming handler. */
export type StreamForm<F, Value, Results> = F extends StreamTarget ? unknown
  : (value: Value, results: Results, context: StepContext) => Stream.Stream<unknown, unknown, unknown> | AsyncIterable<unknown>

/** A streaming handler. */
type StreamTarget = Target & Runnable<unknown> & { readonly streams: true }

/** What a step produces, without its promise or Effect. */
type Produced<F> = F extends Effect.Effect<infer A, infer _E, infer _R> ? A
  : F extends (...args: never) => infer Out ? (Out extends Effect.Effect<infer A, infer _E, infer _R> ? A : Awaited<Out>)
  : never

/** The value that a later step receives: decoded by the `output` Schema if there is one. */
type OutputOf<F, S> = [S] extends [NoSchema] ? Produced<F> : S extends Schema.Constraint ? S["Type"] : never

/** The services of a step, without those that the runtime provides. */
type ServicesOf<F> = Exclude<
  F extends Effect.Effect<infer _A, infer _E, infer R> ? R
    : F extends (...args: never) => infer Out ? ServicesOfResult<Out>
    : F extends Runnable<infer R> ? R
    : never,
  Scope.Scope
>

type ServicesOfResult<Out> = Out extends Effect.Effect<infer _A, infer _E, infer R> ? R
  : Out extends Stream.Stream<infer _A, infer _E, infer R> ? R
  : never

/** What a stream produces: the list of its chunks. */
type ChunkOf<F> = F extends { readonly output: Schema.Constraint } ? F["output"]["Type"]
  : F extends (...args: never) => infer Out
    ? (Out extends Stream.Stream<infer A, infer _E, infer _R> ? A : Out extends AsyncIterable<infer A> ? A : never)
  : never

/** Whether the output of a step can be recorded: by its `output` Schema, or as JSON. */
type RecordableStep<Name extends string, F, S> = [S] extends [NoSchema] ? Recordable<Name, Produced<F>>
  : S extends Schema.Constraint ? Fits<Name, Produced<F>, S["Type"]>
  : never

/** The results with one more name. */
type With<Results, Name extends string, Value> = {
  readonly [K in keyof Results | Name]: K extends keyof Results ? Results[K] : Value
}

/** The elements of a list. */
type ItemOf<List> = List extends ReadonlyArray<infer Item> ? Item : never

/** `unknown` if it is a list. */
type IsList<Name extends string, List> = [List] extends [ReadonlyArray<unknown>] ? unknown
  : DoesNotFit<Name, { receives: List; takes: ReadonlyArray<unknown> }>

/** What undoes a node: a function or an Effect that receives its output, or an endpoint that takes the output as its input. */
export type UndoForm<Output> =
  | ((output: Output, context: StepContext) => unknown)
  | Effect.Effect<unknown, unknown, unknown>
  | Target

/** `unknown` if an endpoint can undo a node with this output. */
type FitsUndo<Name extends string, Output, U> = U extends Target ? Fits<`${Name}~undo`, Output, U["input"]["Type"]> : unknown

/** Options for steps, streams and jobs. */
interface WorkOptions {
  /** Retries the step when it fails. A number: that many retries, after 1, 2, 4... seconds. Default: 0. */
  readonly retry?: number | Retry
  /** The time limit of one attempt. Default: none. */
  readonly timeout?: Duration.Input
}

/** Options for a step. */
export interface StepOptions<Output, S, U> extends WorkOptions {
  /** Encodes the output for the journal, and decodes it for later steps. Default: the output must be JSON. */
  readonly output?: S
  /**
   * Undoes the step when a later step of the run fails or the run is cancelled. Runs after the compensations of later steps. Receives the step's
   * output.
   */
  readonly undo?: U & UndoForm<Output>
}

/** Options for the job of a node. */
interface JobOptions {
  /** The priority of the job, up to the limit of its endpoint. Default: the run's priority. */
  readonly priority?: number
  /** The tags of the job. Default: the run's tags. */
  readonly tags?: ReadonlyArray<string>
}

/** Options for a job or a step of a kind. */
export interface RunOptions<Output, U> extends WorkOptions {
  /** Like `undo` of a step. */
  readonly undo?: U & UndoForm<Output>
}

/** Options for a step that uses a kind, in addition to the kind's own options. A stream has no `undo`. */
type UseOptions<K extends StepKind.Any, U> = K extends { readonly streams: true } ? WorkOptions
  : RunOptions<K["output"]["Type"], U>

/** Options for a `forEach`, in addition to the options for its step or job. */
interface EachOptions {
  /** The maximum number of items that run at the same time. Default: 8. */
  readonly concurrency?: number
}

/** Options for a `waitFor`. */
export interface WaitOptions<Results, Event> {
  /** Distinguishes the events of several runs. Default: "". Must be pure. */
  readonly key?: (results: Results) => string
  /** How long to wait. Default: until the run's time to live ends. */
  readonly timeout?: Duration.Input
  /** The output after the timeout. Default: the step fails. Must be pure. */
  readonly onTimeout?: (results: Results) => Event
}

/** The end of a sequence of nodes: what it produces, and the services that it needs. Exists only in the type. */
export interface Sequence<out Value, out R> {
  readonly "~value": () => Value
  readonly "~services": () => R
}

type ValueOf<S> = S extends Sequence<infer Value, infer _R> ? Value : never
type SequenceServices<S> = S extends Sequence<infer _V, infer R> ? R : never

/** The sequences of an `all` or a `branch` by name. */
type Parts<I extends Schema.Constraint, Value, Results> = {
  readonly [name: string]: (start: Builder<string, I, Value, Results, never>) => Sequence<unknown, unknown>
}

/** A pipeline that is not complete yet. `Value` is the output of its last node, `Results` are the outputs of all nodes by name. */
export interface Builder<Name extends string, I extends Schema.Constraint, Value, Results, R> extends Sequence<Value, R> {
  /**
   * Runs a function or an Effect in the pipeline's worker. It receives the value of the previous node, the results of all previous nodes by name, and
   * its context. The output is recorded before the next node begins, and the step does not run again once it is recorded.
   */
  readonly step: <
    const N extends string,
    A = Value,
    B = Results,
    F = unknown,
    S extends Schema.ConstraintCodec<unknown, unknown> | NoSchema = NoSchema,
    U = unknown
  >(
    name: FreeName<N, Results> & N,
    run: Fits<N, Value, A> & Fits<N, Results, B> & RecordableStep<N, F, S> & F & StepForm<F, A, B>,
    options?: StepOptions<OutputOf<F, S>, S, U> & { readonly undo?: FitsUndo<N, OutputOf<F, S>, U> }
  ) => Builder<Name, I, OutputOf<F, S>, With<Results, N, OutputOf<F, S>>, R | ServicesOf<F> | ServicesOf<U>>

  /** Runs a step of a kind, as {@link Builder.step} and {@link Builder.stream} do. `with` contains the options of the kind. */
  readonly use: <const N extends string, K extends StepKind.Any, U = unknown>(
    name: FreeName<N, Results> & N,
    kind: Fits<N, Value, K["input"]["Type"]> & K,
    ...options: {} extends K["options"]["Type"] ? [options?: UseOptions<K, U> & { readonly with?: K["options"]["Type"] }]
      : [options: UseOptions<K, U> & { readonly with: K["options"]["Type"] }]
  ) => Builder<
    Name,
    I,
    StepKind.OutputOf<K>,
    With<Results, N, StepKind.OutputOf<K>>,
    R | StepKind.Services<K> | ServicesOf<U>
  >

  /**
   * Runs a stream in the pipeline's worker. Its chunks are the chunks of the run, and its output is the list of them. After a crash the stream
   * restarts. Chunks that callers have already received are not sent again.
   */
  readonly stream: <const N extends string, A = Value, B = Results, F = unknown>(
    name: FreeName<N, Results> & N,
    run:
      & (F extends StreamTarget ? Fits<N, Value, F["input"]["Type"]> : Fits<N, Value, A> & Fits<N, Results, B>)
      & F
      & StreamForm<F, A, B>,
    options?: WorkOptions
  ) => Builder<Name, I, ReadonlyArray<ChunkOf<F>>, With<Results, N, ReadonlyArray<ChunkOf<F>>>, R | ServicesOf<F>>

  /**
   * Selects the next node's value from the results, for example a part of one result or a combination of several. Must be pure: it is not recorded
   * and runs again when the run resumes.
   */
  readonly select: <V>(select: (results: Results, value: Value) => V) => Builder<Name, I, V, Results, R>

  /** Runs a job of an endpoint, or of another pipeline. The run occupies no worker while it waits for a long job. */
  readonly run: <const N extends string, T extends Target, U = unknown>(
    name: FreeName<N, Results> & N,
    target: Fits<N, Value, T["input"]["Type"]> & T,
    options?: RunOptions<JobOutput<T>, U> & JobOptions & { readonly undo?: FitsUndo<N, JobOutput<T>, U> }
  ) => Builder<Name, I, JobOutput<T>, With<Results, N, JobOutput<T>>, R | ServicesOf<U>>

  /**
   * Runs a step, or a job of an endpoint, for each item of the list. The number of items is recorded. The output is the list of outputs in the
   * order of the items. The first item that fails permanently fails the run.
   */
  readonly forEach: <
    const N extends string,
    A = ItemOf<Value>,
    B = Results,
    F = unknown,
    S extends Schema.ConstraintCodec<unknown, unknown> | NoSchema = NoSchema,
    U = unknown
  >(
    name: FreeName<N, Results> & N,
    each: IsList<N, Value> & FitsEach<N, ItemOf<Value>, A, Results, B, F, S> & F & EachForm<F, A, B>,
    options?: StepOptions<EachOutput<F, S>, S, U> & EachOptions & (F extends Target ? JobOptions : unknown) & {
      readonly undo?: FitsUndo<N, EachOutput<F, S>, U>
    }
  ) => Builder<
    Name,
    I,
    ReadonlyArray<EachOutput<F, S>>,
    With<Results, N, ReadonlyArray<EachOutput<F, S>>>,
    R | (F extends Target ? never : ServicesOf<F>) | ServicesOf<U>
  >

  /**
   * Runs several sequences at the same time. The output contains the output of each sequence under its name. At most one of them may contain a
   * stream.
   */
  readonly all: <const N extends string, P extends Parts<I, Value, Results>>(
    name: FreeName<N, Results> & N,
    parts: P
  ) => Builder<
    Name,
    I,
    { readonly [K in keyof P]: ValueOf<ReturnType<P[K]>> },
    With<Results, N, { readonly [K in keyof P]: ValueOf<ReturnType<P[K]>> }>,
    R | SequenceServices<ReturnType<P[keyof P]>>
  >

  /** Runs one of several sequences. The choice is recorded; `choose` must be pure. The output is the output of the chosen sequence. */
  readonly branch: <const N extends string, const Key extends string, P extends Pick<Parts<I, Value, Results>, Key>>(
    name: FreeName<N, Results> & N,
    choose: (results: Results, value: Value) => Key,
    parts: P
  ) => Builder<
    Name,
    I,
    ValueOf<ReturnType<P[Key]>>,
    With<Results, N, ValueOf<ReturnType<P[Key]>>>,
    R | SequenceServices<ReturnType<P[Key]>>
  >

  /** Pauses the run, which occupies no worker during the pause. The value passes through. */
  readonly sleep: <const N extends string>(
    name: FreeName<N, Results> & N,
    duration: Duration.Input | ((results: Results) => Duration.Input)
  ) => Builder<Name, I, Value, With<Results, N, undefined>, R>

  /**
   * Waits for an event that a caller sends with this name and key; it may arrive before the run waits. The run occupies no worker while it waits. The
   * output is the event's data.
   */
  readonly waitFor: <const N extends string, S extends Schema.ConstraintCodec<unknown, unknown>>(
    name: FreeName<N, Results> & N,
    event: S,
    options?: WaitOptions<Results, S["Type"]>
  ) => Builder<Name, I, S["Type"], With<Results, N, S["Type"]>, R>

  /** Completes the pipeline. The value of the last node becomes the output of the run. */
  readonly end: <O extends Schema.ConstraintCodec<unknown, unknown>>(
    output: Fits<"end", Value, O["Type"]> & O
  ) => Pipeline<Name, I, O, R>
}

/** The output of an endpoint's job. For a streaming handler, the list of its chunks. */
type JobOutput<T extends Target> = T["streams"] extends true ? ReadonlyArray<T["output"]["Type"]> : T["output"]["Type"]

type EachOutput<F, S> = F extends Target ? JobOutput<F> : OutputOf<F, S>

type FitsEach<Name extends string, Item, A, Results, B, F, S> = F extends Target ? Fits<Name, Item, F["input"]["Type"]>
  : Fits<Name, Item, A> & Fits<Name, Results, B> & RecordableStep<Name, F, S>
