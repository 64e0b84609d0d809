/**
 * A pipeline's definition as data: a tree of named nodes. The interpreter runs it, and `Graph` draws and fingerprints it.
 *
 * Functions in it are untyped, because the builder has checked each connection where it was made.
 */
import type { Runnable } from "@stint/worker/Runnable"
import type * as Duration from "effect/Duration"
import type * as Schema from "effect/Schema"
import type { StepContext } from "./StepContext.ts"

/** The results of the previous nodes by name, and the pipeline's `input`. */
export type Results = { readonly [name: string]: unknown }

/** A step: an Effect, or a function that may return a promise or an Effect. */
export type StepRun = (value: unknown, results: Results, context: StepContext) => unknown

/** How often and how fast a failed step runs again. */
export interface Retry {
  /** The number of retries after the first attempt. */
  readonly times: number
  /** The wait before the first retry. Default: 1 second. */
  readonly delay?: Duration.Input
  /** The factor by which the wait grows with each attempt. Default: 2. */
  readonly factor?: number
  /** The longest wait. Default: 1 minute. */
  readonly maxDelay?: Duration.Input
}

/** An endpoint whose jobs a pipeline can run: a handler with Schemas, or a pipeline. Its name is the endpoint's id. */
export interface Target {
  readonly name: string
  readonly input: Schema.ConstraintCodec<unknown, unknown>
  readonly output: Schema.ConstraintCodec<unknown, unknown>
  readonly streams: boolean
}

/** What undoes a node. It receives the node's output. */
export type Undo =
  | { readonly _tag: "Call"; readonly run: (output: unknown, context: StepContext) => unknown }
  | { readonly _tag: "Job"; readonly target: Target }

/** What steps, jobs and streams have in common. */
interface Work {
  readonly name: string
  readonly retry: Retry | undefined
  /** The time limit of one attempt. Undefined: none. */
  readonly timeout: Duration.Input | undefined
  readonly undo: Undo | undefined
  /** Encodes the output for the journal. Undefined: the output is already JSON. */
  readonly output: Schema.ConstraintCodec<unknown, unknown> | undefined
}

/** Runs in the pipeline's worker. */
export interface StepNode extends Work {
  readonly kind: "step"
  readonly run: StepRun
}

/** Runs in the pipeline's worker. Its chunks are sent as chunks of the run; its output is the list of them. */
export interface StreamNode extends Work {
  readonly kind: "stream"
  readonly run: StepRun
  /** A streaming handler instead of a function. */
  readonly handler: (Runnable<unknown> & Target) | undefined
}

/** A job of an endpoint. */
export interface RunNode extends Work {
  readonly kind: "run"
  readonly target: Target
  /** Undefined: the run's priority. */
  readonly priority: number | undefined
  /** Undefined: the run's tags. */
  readonly tags: ReadonlyArray<string> | undefined
}

/** One step or job for each item of a list. The output is the list of outputs, in the order of the items. */
export interface ForEachNode {
  readonly kind: "forEach"
  readonly name: string
  /** The maximum number of items that run at the same time. */
  readonly concurrency: number
  readonly each: StepNode | RunNode
}

/** A named sequence of nodes inside another node. */
export interface Part {
  readonly name: string
  readonly nodes: ReadonlyArray<Node>
}

/** Several sequences that run at the same time. The output contains the output of each sequence under its name. */
export interface AllNode {
  readonly kind: "all"
  readonly name: string
  readonly parts: ReadonlyArray<Part>
}

/** Runs one of several sequences. */
export interface BranchNode {
  readonly kind: "branch"
  readonly name: string
  readonly choose: (results: Results, value: unknown) => string
  readonly parts: ReadonlyArray<Part>
}

/** A pause. The value passes through. */
export interface SleepNode {
  readonly kind: "sleep"
  readonly name: string
  readonly duration: (results: Results) => Duration.Input
}

/** Waits for an event that a caller sends. */
export interface WaitNode {
  readonly kind: "waitFor"
  readonly name: string
  readonly event: Schema.ConstraintCodec<unknown, unknown>
  readonly key: (results: Results) => string
  readonly timeout: Duration.Input | undefined
  /** The output after the timeout. Undefined: the run fails. */
  readonly onTimeout: ((results: Results) => unknown) | undefined
}

/** Changes the value that the next node receives. It has no name and is not recorded. */
export interface SelectNode {
  readonly kind: "select"
  readonly select: (results: Results, value: unknown) => unknown
}

/** A node with a name. */
export type NamedNode = StepNode | StreamNode | RunNode | ForEachNode | AllNode | BranchNode | SleepNode | WaitNode

/** One node of a pipeline. */
export type Node = NamedNode | SelectNode

/** A complete pipeline. */
export interface Definition {
  readonly name: string
  readonly input: Schema.ConstraintCodec<unknown, unknown>
  readonly output: Schema.ConstraintCodec<unknown, unknown>
  readonly nodes: ReadonlyArray<Node>
}
