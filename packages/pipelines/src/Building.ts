/**
 * The untyped builder for definitions. `Pipeline.make` adds the types of `Builder.ts`; `PipelineFile.ts` does its own checks.
 */
import { MAX_PRIORITY } from "@stint/contract/RunJournal"
import { TypeId } from "@stint/worker/Runnable"
import type { Runnable } from "@stint/worker/Runnable"
import type * as Duration from "effect/Duration"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type { Pipeline } from "./Builder.ts"
import type {
  Definition,
  ForEachNode,
  NamedNode,
  Node,
  Part,
  Retry,
  RunNode,
  StepNode,
  StepRun,
  Target,
  Undo
} from "./Definition.ts"
import { runDefinition } from "./Interpreter.ts"
import type * as StepKind from "./StepKind.ts"

/** Gives a value the type that the caller declares. The builder has checked the value. */
export function typed<A>(value: unknown): A // oxlint-disable-line typescript/no-unnecessary-type-parameters -- the caller chooses the type
export function typed(value: unknown): unknown {
  return value
}

const NAME = /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/

const invalid = (pipeline: string, message: string) => new TypeError(`Pipeline "${pipeline}": ${message}`)

const isTarget = (value: unknown): value is Target =>
  Predicate.isObject(value) && TypeId in value && "input" in value && "output" in value && "name" in value

type AnyFunction = (...args: ReadonlyArray<unknown>) => unknown

const isFunction = (value: unknown): value is AnyFunction => typeof value === "function"

/** The options of any node, as the builder's methods receive them. */
interface NodeOptions {
  readonly retry?: number | Retry
  readonly timeout?: Duration.Input
  readonly output?: Schema.ConstraintCodec<unknown, unknown>
  readonly undo?: unknown
  readonly concurrency?: number
  readonly priority?: number
  readonly tags?: ReadonlyArray<string>
  readonly key?: (results: unknown) => string
  readonly onTimeout?: (results: unknown) => unknown
}

const retryOf = (retry: number | Retry | undefined): Retry | undefined => typeof retry === "number" ? { times: retry } : retry

const callOf = (run: unknown): AnyFunction => isFunction(run) ? run : () => run

const undoOf = (undo: unknown): Undo | undefined =>
  undo === undefined ? undefined : isTarget(undo) ? { _tag: "Job", target: undo } : { _tag: "Call", run: callOf(undo) }

/** Whether a stream can run in the node. */
const hasStream = (node: Node): boolean =>
  node.kind === "stream" ||
  ((node.kind === "all" || node.kind === "branch") && node.parts.some(({ nodes }) => nodes.some(hasStream)))

/** The untyped builder behind the interface `Builder`. */
export class Building {
  readonly #name: string
  readonly #input: Schema.ConstraintCodec<unknown, unknown>
  readonly nodes: ReadonlyArray<Node>
  /** The names that are in use here and in the surrounding sequences. */
  readonly #taken: ReadonlySet<string>

  constructor(
    name: string,
    input: Schema.ConstraintCodec<unknown, unknown>,
    nodes: ReadonlyArray<Node>,
    taken: ReadonlySet<string>
  ) {
    this.#name = name
    this.#input = input
    this.nodes = nodes
    this.#taken = taken
  }

  #add(node: NamedNode): Building {
    this.#check(node.name)
    if (this.#taken.has(node.name)) {
      throw invalid(
        this.#name,
        `the name "${node.name}" is already used. Recorded results are identified by name: choose another one.`
      )
    }
    return new Building(this.#name, this.#input, [...this.nodes, node], new Set([...this.#taken, node.name]))
  }

  #check(name: string): void {
    if (!NAME.test(name)) {
      throw invalid(
        this.#name,
        `"${name}" is not a valid step name. Use 1 to 64 letters, digits, "_" and "-"; the first one is a letter or "_".`
      )
    }
  }

  #work({ output, retry, timeout, undo }: NodeOptions) {
    return { retry: retryOf(retry), timeout, undo: undoOf(undo), output }
  }

  step(name: string, run: unknown, options: NodeOptions = {}): Building {
    return this.#add({ kind: "step", name, run: callOf(run), ...this.#work(options) })
  }

  stream(name: string, run: unknown, options: NodeOptions = {}): Building {
    const handler = isTarget(run) ? run : undefined
    return this.#add({
      kind: "stream",
      name,
      run: callOf(run),
      handler: handler === undefined ? undefined : typed<Runnable<unknown> & Target>(handler),
      ...this.#work({
        ...options,
        ...(handler === undefined
          ? {}
          : { output: typed<Schema.ConstraintCodec<unknown, unknown>>(Schema.Array(handler.output)) })
      })
    })
  }

  select(select: (results: unknown, value: unknown) => unknown): Building {
    return new Building(this.#name, this.#input, [...this.nodes, { kind: "select", select }], this.#taken)
  }

  run(name: string, target: Target, options: NodeOptions = {}): Building {
    return this.#add(this.#job(name, target, options))
  }

  use(
    name: string,
    kind: StepKind.Any,
    { with: options = {}, ...others }: NodeOptions & { readonly with?: unknown } = {}
  ): Building {
    const run: StepRun = (value, _, context) => kind.run(value, options, context)
    return kind.streams === true
      ? this.stream(name, run, { ...others, output: typed(Schema.Array(kind.output)) })
      : this.step(name, run, { ...others, output: kind.output })
  }

  #job(name: string, target: Target, options: NodeOptions): RunNode {
    const { priority, tags } = options
    if (priority !== undefined && !(Number.isInteger(priority) && Math.abs(priority) <= MAX_PRIORITY)) {
      throw invalid(
        this.#name,
        `the priority of "${name}" is ${priority}, but must be an integer from -${MAX_PRIORITY} to ${MAX_PRIORITY}.`
      )
    }
    return { kind: "run", name, target, priority, tags, ...this.#work({ ...options, output: outputOfTarget(target) }) }
  }

  forEach(name: string, each: unknown, options: NodeOptions = {}): Building {
    const { concurrency = 8, ...others } = options
    if (!Number.isInteger(concurrency) || concurrency < 1) {
      throw invalid(this.#name, `the concurrency of "${name}" is ${concurrency}, but must be an integer of at least 1.`)
    }
    const body: StepNode | RunNode = isTarget(each)
      ? this.#job(name, each, others)
      : { kind: "step", name, run: callOf(each), ...this.#work(others) }
    const node: ForEachNode = { kind: "forEach", name, concurrency, each: body }
    return this.#add(node)
  }

  #parts(parts: { readonly [name: string]: (start: Building) => Building }): ReadonlyArray<Part> {
    return Object.entries(parts).map(([name, build]) => {
      this.#check(name)
      return { name, nodes: build(new Building(this.#name, this.#input, [], this.#taken)).nodes }
    })
  }

  all(name: string, parts: { readonly [name: string]: (start: Building) => Building }): Building {
    const built = this.#parts(parts)
    const [first, second] = built.filter(({ nodes }) => nodes.some(hasStream))
    if (first !== undefined && second !== undefined) {
      throw invalid(
        this.#name,
        `the parts "${first.name}" and "${second.name}" of "${name}" run at the same time and both contain a stream. A run can only ` +
          "stream one of them at a time: put the streams one after the other, or make one of them a step."
      )
    }
    return this.#add({ kind: "all", name, parts: built })
  }

  branch(
    name: string,
    choose: (results: unknown, value: unknown) => string,
    parts: { readonly [name: string]: (start: Building) => Building }
  ): Building {
    return this.#add({ kind: "branch", name, choose, parts: this.#parts(parts) })
  }

  sleep(name: string, duration: unknown): Building {
    return this.#add({
      kind: "sleep",
      name,
      duration: isFunction(duration)
        ? typed<(results: unknown) => Duration.Input>(duration)
        : () => typed<Duration.Input>(duration)
    })
  }

  waitFor(name: string, event: Schema.ConstraintCodec<unknown, unknown>, options: NodeOptions = {}): Building {
    const { key = () => "", onTimeout, timeout } = options
    return this.#add({ kind: "waitFor", name, event, key, timeout, onTimeout })
  }

  end(output: Schema.ConstraintCodec<unknown, unknown>): Pipeline<string, Schema.Constraint, Schema.Constraint, unknown> {
    const definition: Definition = { name: this.#name, input: this.#input, output, nodes: this.nodes }
    return {
      [TypeId]: TypeId,
      name: this.#name,
      input: this.#input,
      output,
      error: Schema.Never,
      streams: false,
      definition,
      run: runDefinition(definition)
    }
  }
}

const outputOfTarget = (target: Target): Schema.ConstraintCodec<unknown, unknown> =>
  target.streams ? typed(Schema.Array(target.output)) : target.output
