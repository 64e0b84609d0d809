/**
 * Compensation: undoes the steps of a failed or cancelled run, in reverse order of their records.
 *
 * Each compensation is recorded, so after a crash the run continues with the next one. If a compensation fails in all its attempts, the run ends with
 * an error that names what is not undone. A retry of the run continues there.
 */
import { nodeOf } from "@stint/contract/NodeAddress"
import type { JournalEntry } from "@stint/contract/RunJournal"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type { Activation, NodeFailed } from "./Activation.ts"
import type { NamedNode, Node, Retry, Undo } from "./Definition.ts"
import {
  decodeOutput,
  isCancelledChild,
  isFailedChild,
  messageOfFailed,
  outputOfChild,
  runJob,
  waitBefore
} from "./PipelineNodes.ts"
import { attempt, call, timed } from "./StepCall.ts"

/** The retries of a compensation. More than one, because a run that cannot be compensated needs an operator. */
const UNDO_RETRY: Retry = { times: 3 }

/** A node with its address. The step or job of a `forEach` is used in place of the `forEach`, because only its items are recorded. */
type Addressed = ReadonlyMap<string, NamedNode>

const addressesOf = (nodes: ReadonlyArray<Node>, prefix = ""): Addressed => {
  const found = new Map<string, NamedNode>()
  for (const node of nodes) {
    if (node.kind === "select") continue
    const address = `${prefix}${node.name}`
    found.set(address, node.kind === "forEach" ? node.each : node)
    if (node.kind !== "all" && node.kind !== "branch") continue
    for (const part of node.parts) {
      for (const [inner, one] of addressesOf(part.nodes, `${address}.${part.name}.`)) found.set(inner, one)
    }
  }
  return found
}

const SUFFIX = /~.*$/
const ATTEMPT = /^[^~]*(?:~(\d+))?$/

/** The number of a job's attempt in its path; undefined for a path with another suffix. */
const attemptOf = (path: string): number | undefined => {
  const match = ATTEMPT.exec(path)
  return match === null ? undefined : Number(match[1] ?? 1)
}

/** The failure of the run at a node whose own entries do not contain it, such as the timeout of a wait. */
const RUN_FAILURE = "~0"
const RUN_FAILURE_PATH = /^([^~]*)~0$/

/**
 * The final failure that the journal contains, if any. For a cancelled run, only a failure before the cancellation counts. The run then ends with
 * that failure, even if its worker was killed in between. Jobs that the cancellation ended did not fail.
 */
export const failureIn = (activation: Activation, nodes: ReadonlyArray<Node>): NodeFailed | undefined => {
  const addresses = addressesOf(nodes)
  const cancel = activation.cancelledBy()
  for (const entry of activation.entries()) {
    const { kind, path } = entry
    if (cancel !== undefined && (entry.n > cancel.n || isCancelledChild(entry))) continue
    const failedNode = kind !== "failed" ? undefined : path.includes("~") ? RUN_FAILURE_PATH.exec(path)?.[1] : path
    if (failedNode !== undefined) return { _tag: "NodeFailed", path: failedNode, message: messageOfFailed(entry) }
    if (kind !== "end") continue
    const node = addresses.get(nodeOf(path))
    const number = attemptOf(path)
    if (node?.kind !== "run" || number === undefined || number <= (node.retry?.times ?? 0) || !isFailedChild(entry)) continue
    const end = outputOfChild(node.target, entry)
    return { _tag: "NodeFailed", path: path.replace(SUFFIX, ""), message: "message" in end ? end.message : "" }
  }
  return undefined
}

/**
 * Records the failure of the run unless an entry contains it. Otherwise, an activation that continues the compensations would run the nodes again and
 * would not know why the run failed, and a retry of the run would keep an event that the pipeline cannot read.
 */
export const keepFailure = (
  activation: Activation,
  nodes: ReadonlyArray<Node>,
  { message, path }: NodeFailed
): Effect.Effect<void> =>
  failureIn(activation, nodes) !== undefined
    ? Effect.void
    : Effect.matchEffect(activation.record({ path: `${path}${RUN_FAILURE}`, kind: "failed", body: { error: message } }), {
      onFailure: (refused) => Effect.logWarning(`The failure of the run cannot be recorded: ${refused.message}`),
      onSuccess: () => Effect.void
    })

/** Something that the run did and that can be undone. */
interface Done {
  readonly path: string
  readonly undo: Undo
  readonly output: unknown
  readonly codec: Schema.ConstraintCodec<unknown, unknown> | undefined
  readonly n: number
}

/** What this entry records as done. A running job counts once it has completed. */
const doneAt = (activation: Activation, entry: JournalEntry, node: NamedNode | undefined): Effect.Effect<Option.Option<Done>> => {
  const { kind, path } = entry
  if (node === undefined || (node.kind !== "step" && node.kind !== "run") || node.undo === undefined) return Effect.succeedNone
  const { output: codec, undo } = node
  if (node.kind === "step") {
    return kind === "step" && !path.includes("~")
      ? Effect.succeedSome({ path, undo, output: entry.body, codec, n: entry.n })
      : Effect.succeedNone
  }
  if (kind !== "spawn" || attemptOf(path) === undefined) return Effect.succeedNone
  const { target } = node
  return Effect.map(activation.settled(path), (end) => {
    const result = outputOfChild(target, end)
    return "output" in result
      ? Option.some({ path: path.replace(SUFFIX, ""), undo, output: result.output, codec, n: end.n })
      : Option.none()
  })
}

/** Runs one compensation until an attempt succeeds. */
const undoOne = (activation: Activation, { codec, output, path, undo }: Done): Effect.Effect<void, NodeFailed, unknown> =>
  Effect.gen(function*() {
    const at = `${path}~undo`
    if (activation.at(at, "undo") !== undefined) return
    const value = yield* decodeOutput(codec, at, output)
    let took: number | undefined
    if (undo._tag === "Job") {
      yield* runJob(activation, undo.target, at, value, { retry: UNDO_RETRY, timeout: undefined, again: true })
    } else {
      let number = 1
      while (activation.at(`${at}~${number}`, "failed") !== undefined) number++
      const last = Math.max(number, UNDO_RETRY.times + 1)
      while (true) {
        if (number > 1) yield* waitBefore(activation, at, UNDO_RETRY, number)
        const { ms, result: failure } = yield* timed(Effect.match(
          attempt(
            { run: activation.run, path: at, attempt: number, timeout: undefined },
            // A compensation has no results of other nodes: its context is the second argument.
            (context) => call((given) => undo.run(given, context), value, {})(context)
          ),
          { onFailure: ({ message }) => message, onSuccess: () => undefined }
        ))
        took = ms
        if (failure === undefined) break
        if (number >= last) return yield* Effect.fail<NodeFailed>({ _tag: "NodeFailed", path: at, message: failure })
        yield* activation.record({ path: `${at}~${number}`, kind: "failed", body: { error: failure }, ms })
        number++
      }
    }
    yield* activation.record({ path: at, kind: "undo", ...(took === undefined ? {} : { ms: took }) })
  })

/** Undoes everything. Returns a message about what is not undone, or undefined. */
export const undoAll = (activation: Activation, nodes: ReadonlyArray<Node>): Effect.Effect<string | undefined, never, unknown> =>
  Effect.gen(function*() {
    const addresses = addressesOf(nodes)
    const found = yield* Effect.forEach(
      activation.entries(),
      (entry) => doneAt(activation, entry, addresses.get(nodeOf(entry.path)))
    )
    const done = found.filter(Option.isSome).map(({ value }) => value).sort((a, b) => b.n - a.n)
    for (const [index, one] of done.entries()) {
      const failure = yield* Effect.match(undoOne(activation, one), {
        onFailure: ({ message }) => message,
        onSuccess: () => undefined
      })
      if (failure === undefined) continue
      const left = done.slice(index).map(({ path }) => path).join(", ")
      return `Not undone: ${left}. The undo of "${one.path}" failed: ${failure}`
    }
    return undefined
  })
