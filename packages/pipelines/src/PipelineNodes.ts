/**
 * Runs the nodes of a definition one after the other, and each kind of node in its own way (`Interpreter.ts` lists them).
 */
import type { JournalEntry, StepInput } from "@stint/contract/RunJournal"
import { EndBody, FailedBody } from "@stint/contract/RunJournal"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { isLarge } from "./Activation.ts"
import type { Activation, Group, NodeFailed } from "./Activation.ts"
import type {
  ForEachNode,
  NamedNode,
  Node,
  Results,
  Retry,
  RunNode,
  StepNode,
  StreamNode,
  Target,
  WaitNode
} from "./Definition.ts"
import { attempt, call, timed } from "./StepCall.ts"
import { inputOf, isComputedAfter } from "./StepInput.ts"
import { runStream } from "./StreamRun.ts"

const failed = (path: string, message: string): Effect.Effect<never, NodeFailed> =>
  Effect.fail({ _tag: "NodeFailed", path, message })

/** The position of the interpreter: before a path, with the value of the previous node and the results so far. */
export interface Position {
  readonly prefix: string
  readonly value: unknown
  readonly results: Results
  /** Whether the value is not the recorded output of other nodes. The next step then records it as its input. */
  readonly isComputed: boolean
}

type Run<A> = Effect.Effect<A, NodeFailed, unknown>

const decodeEnd = Schema.decodeUnknownOption(EndBody)
const decodeFailed = Schema.decodeUnknownOption(FailedBody)

/** The message of a `failed` entry. */
export const messageOfFailed = (entry: JournalEntry): string =>
  Option.match(decodeFailed(entry.body), { onNone: () => JSON.stringify(entry.body), onSome: ({ error }) => error })

/** The output of a journal entry, as later nodes receive it. It is a failure if a changed Schema no longer fits the record. */
export const decodeOutput = (
  schema: Schema.ConstraintCodec<unknown, unknown> | undefined,
  path: string,
  json: unknown
): Effect.Effect<unknown, NodeFailed, unknown> =>
  schema === undefined
    ? Effect.succeed(json)
    : Effect.catch(
      Schema.decodeUnknownEffect(Schema.toCodecJson(schema))(json),
      (error) => failed(path, `The recorded output does not fit: ${error.message}`)
    )

const encodeOutput = (
  schema: Schema.ConstraintCodec<unknown, unknown> | undefined,
  value: unknown
): Effect.Effect<unknown, unknown, unknown> =>
  schema === undefined ? Effect.succeed(value) : Schema.encodeUnknownEffect(Schema.toCodecJson(schema))(value)

/** The wait before attempt `next`: 1, 2, 4... seconds unless the policy says otherwise. Milliseconds. */
const backoff = ({ delay = "1 second", factor = 2, maxDelay = "1 minute" }: Retry, next: number): number =>
  Math.round(Math.min(Duration.toMillis(maxDelay), Duration.toMillis(delay) * factor ** (next - 2)))

/** The path of the wait before an attempt. A job has its own entries at `~2`, so the wait is at `~2~0`. */
const waitPath = (path: string, next: number): string => `${path}~${next}~0`

/** Records a sleep, and waits until the platform has ended it. */
const begunSleep = (activation: Activation, path: string, ms: number): Effect.Effect<void, NodeFailed> =>
  Effect.gen(function*() {
    yield* activation.record({ path, kind: "sleep", body: { ms } })
    yield* activation.settled(path, { notBefore: (yield* Clock.currentTimeMillis) + ms })
  })

/** Waits before attempt `next`. The wait is recorded, so it does not restart after a crash. */
export const waitBefore = (activation: Activation, path: string, retry: Retry, next: number): Effect.Effect<void, NodeFailed> => {
  const at = waitPath(path, next)
  return Effect.suspend(() =>
    activation.find(at) === undefined && activation.at(at, "sleep") === undefined
      ? begunSleep(activation, at, backoff(retry, next))
      : Effect.asVoid(activation.settled(at))
  )
}

const NO_RETRY: Retry = { times: 0 }

/** The place of a step in its run. */
interface Place {
  /** Whether the step is the last node: its record and the run's end are one write. */
  readonly isLast: boolean
  /** The input that the step's first record contains. Undefined: it is the output of other nodes. */
  readonly input: (() => StepInput) | undefined
}

/** Runs a step until an attempt succeeds or the last attempt has failed. */
const runStep = (
  activation: Activation,
  node: StepNode | StreamNode,
  path: string,
  use: Parameters<typeof attempt<unknown, unknown>>[1],
  { input, isLast }: Place
): Run<unknown> =>
  Effect.gen(function*() {
    const known = activation.find(path)
    if (known?.kind === "failed") return yield* failed(path, messageOfFailed(known))
    if (known !== undefined) return yield* decodeOutput(node.output, path, known.body)
    const retry = node.retry ?? NO_RETRY
    let number = 1
    while (activation.at(`${path}~${number}`, "failed") !== undefined) number++
    while (true) {
      if (number > 1) yield* waitBefore(activation, path, retry, number)
      const given = number === 1 && input !== undefined ? { input: input() } : {}
      const { ms, result } = yield* timed(Effect.match(
        attempt(
          { run: activation.run, path, attempt: number, timeout: node.timeout },
          (context) => Effect.flatMap(use(context), (value) => encodeOutput(node.output, value))
        ),
        { onFailure: (failure) => ({ failure }), onSuccess: (output) => ({ output }) }
      ))
      if ("output" in result) {
        const record = {
          path,
          kind: "step" as const,
          ms,
          ...given,
          ...(result.output === undefined ? {} : { body: result.output })
        }
        // The end of the run contains the output too.
        if (isLast && !isLarge(record)) {
          activation.recordLast(record)
          return yield* decodeOutput(node.output, path, result.output)
        }
        const stored = yield* activation.record(record)
        return yield* stored.kind === "failed"
          ? failed(path, messageOfFailed(stored))
          : decodeOutput(node.output, path, result.output === undefined ? undefined : stored.body)
      }
      const { message } = result.failure
      if (number > retry.times) {
        yield* activation.record({ path, kind: "failed", body: { error: message, attempts: number }, ms, ...given })
        return yield* failed(path, message)
      }
      yield* activation.record({ path: `${path}~${number}`, kind: "failed", body: { error: message }, ms, ...given })
      number++
    }
  })

/** The child's result, or why it has none. */
export type ChildEnd = { readonly output: unknown } | { readonly message: string }

/** The result in an `end` entry. */
export const outputOfChild = (target: Target, entry: JournalEntry): ChildEnd =>
  Option.match(decodeEnd(entry.body), {
    onNone: (): ChildEnd => ({ message: `The journal has an end of "${target.name}" that this version cannot read.` }),
    onSome: ({ error, job, output, status }): ChildEnd =>
      status === "COMPLETED"
        // docs/spec/handler.md#returned-values: an absent output is an object without keys.
        ? { output: output ?? (target.streams ? [] : {}) }
        : {
          message: error ?? (status === "TIMED_OUT" && job === undefined
            ? `The job of "${target.name}" took too long.`
            : `The job ${job ?? ""} of "${target.name}" is ${status ?? "lost"}.`)
        }
  })

/** The path of a job's attempt. */
const attemptPath = (path: string, number: number): string => number === 1 ? path : `${path}~${number}`

/** Whether an entry of a job's attempt means that the attempt failed. */
export const isFailedChild = (entry: JournalEntry): boolean =>
  Option.match(decodeEnd(entry.body), { onNone: () => true, onSome: ({ status }) => status !== "COMPLETED" })

/** Whether a job was cancelled, for example because its run was. */
export const isCancelledChild = ({ body, kind }: JournalEntry): boolean =>
  kind === "end" && Option.exists(decodeEnd(body), ({ status }) => status === "CANCELLED")

/** Runs a job of an endpoint until an attempt completes or the last attempt has failed. Returns the encoded output. */
export const runJob = (
  activation: Activation,
  target: Target,
  path: string,
  input: unknown,
  options: {
    readonly retry: Retry
    readonly timeout: Duration.Input | undefined
    readonly priority?: number | undefined
    readonly tags?: ReadonlyArray<string> | undefined
    readonly group?: Group
    readonly again?: boolean
  }
): Run<unknown> =>
  Effect.gen(function*() {
    const { again = false, group, priority, retry, tags, timeout } = options
    let number = 1
    // Attempts that failed before this activation count, but there is always one more.
    const isSpent = (entry: JournalEntry | undefined) => entry !== undefined && isFailedChild(entry)
    if (again) { while (isSpent(activation.find(attemptPath(path, number)))) number++ }
    const last = Math.max(number, retry.times + 1)
    while (true) {
      const at = attemptPath(path, number)
      if (activation.find(at) === undefined && activation.at(at, "spawn") === undefined) {
        const encoded = yield* Effect.catch(
          Schema.encodeUnknownEffect(Schema.toCodecJson(target.input))(input),
          (error) => failed(path, `The input of "${target.name}" does not fit: ${error.message}`)
        )
        const body = {
          endpoint: target.name,
          input: encoded,
          ...(priority === undefined ? {} : { priority }),
          ...(tags === undefined ? {} : { tags }),
          ...(timeout === undefined ? {} : { timeoutMs: Math.round(Duration.toMillis(timeout)) })
        }
        if (group !== undefined && number === 1) group.unstarted--
        yield* activation.record({ path: at, kind: "spawn", body })
      } else if (group !== undefined && number === 1) group.unstarted--
      const end = outputOfChild(target, yield* activation.settled(at, { group }))
      if ("output" in end) return end.output
      if (number >= last) return yield* failed(path, end.message)
      number++
      yield* waitBefore(activation, path, retry, number)
    }
  })

const runRunNode = (activation: Activation, node: RunNode, path: string, input: unknown, group?: Group): Run<unknown> =>
  Effect.flatMap(
    runJob(activation, node.target, path, input, {
      retry: node.retry ?? NO_RETRY,
      timeout: node.timeout,
      priority: node.priority,
      tags: node.tags,
      ...(group === undefined ? {} : { group })
    }),
    (output) => decodeOutput(node.output, path, output)
  )

/** The value that a user's pure function computes. If it throws, the node fails. */
const pure = <A>(path: string, evaluate: () => A): Effect.Effect<A, NodeFailed> =>
  Effect.catch(
    Effect.try({ try: evaluate, catch: (thrown) => thrown instanceof Error ? thrown.message : String(thrown) }),
    (message) => failed(path, message)
  )

const decodeCount = Schema.decodeUnknownOption(Schema.Struct({ items: Schema.Int }))

const runForEach = (
  activation: Activation,
  node: ForEachNode,
  path: string,
  { isComputed, results, value }: Position
): Run<unknown> =>
  Effect.gen(function*() {
    const list = value
    if (!Array.isArray(list)) return yield* failed(path, `The items are not a list, but ${list === null ? "null" : typeof list}.`)
    const stored = activation.at(path, "choice") ??
      (yield* activation.record({ path, kind: "choice", body: { items: list.length } }))
    const count = Option.getOrUndefined(decodeCount(stored.body))?.items
    if (count !== list.length) {
      return yield* failed(
        path,
        `It began with ${
          count ?? "an unknown number of"
        } items and now has ${list.length}: the function that selects them is not pure, or it ` +
          "has changed. Retry the run from this step."
      )
    }
    const group: Group = { unstarted: list.length }
    return yield* activation.parallel(list.length, node.concurrency, (index) => {
      const at = `${path}[${index}]`
      const item: unknown = list[index]
      const { each } = node
      return each.kind === "run"
        ? runRunNode(activation, each, at, item, group)
        : runStep(activation, each, at, call(each.run, item, results), {
          isLast: false,
          input: isComputed ? () => inputOf(item) : undefined
        })
    })
  })

/** Waits until the platform has ended the sleep at this path. */
const sleepFor = (activation: Activation, path: string, duration: () => Duration.Input): Run<void> =>
  Effect.gen(function*() {
    if (activation.find(path) === undefined && activation.at(path, "sleep") === undefined) {
      const ms = yield* pure(path, () => Math.round(Duration.toMillis(duration())))
      return yield* begunSleep(activation, path, ms)
    }
    yield* activation.settled(path)
  })

const waitForEvent = (activation: Activation, node: WaitNode, path: string, results: Results): Run<unknown> =>
  Effect.gen(function*() {
    if (activation.find(path) === undefined && activation.at(path, "wait") === undefined) {
      const key = yield* pure(path, () => node.key(results))
      const body = {
        name: node.name,
        key,
        ...(node.timeout === undefined ? {} : { timeoutMs: Math.round(Duration.toMillis(node.timeout)) })
      }
      yield* activation.record({ path, kind: "wait", body })
    }
    const entry = yield* activation.settled(path)
    const { event, onTimeout, timeout } = node
    if (entry.kind === "event") {
      return yield* Effect.catch(
        Schema.decodeUnknownEffect(Schema.toCodecJson(event))(entry.body),
        (error) => failed(path, `The data of the event "${node.name}" does not fit: ${error.message}`)
      )
    }
    if (onTimeout !== undefined) return yield* pure(path, () => onTimeout(results))
    return yield* failed(
      path,
      `No event "${node.name}" arrived${
        timeout === undefined ? "" : ` within ${Duration.format(Duration.fromInputUnsafe(timeout))}`
      }.`
    )
  })

const decodeChoice = Schema.decodeUnknownOption(Schema.Struct({ branch: Schema.String }))

const runNode = (activation: Activation, node: NamedNode, path: string, position: Position, isLast: boolean): Run<unknown> => {
  const { isComputed, results, value } = position
  const place = (last: boolean): Place => ({ isLast: last, input: isComputed ? () => inputOf(value) : undefined })
  switch (node.kind) {
    case "step":
      return runStep(activation, node, path, call(node.run, value, results), place(isLast))
    case "stream":
      return runStep(activation, node, path, (context) => runStream(activation, node, value, results, context), place(false))
    case "run":
      return runRunNode(activation, node, path, value)
    case "forEach":
      return runForEach(activation, node, path, position)
    case "all":
      return Effect.map(
        activation.parallel(node.parts.length, Infinity, (index) => {
          const part = node.parts[index]
          return part === undefined
            ? Effect.succeed(undefined)
            : Effect.map(
              runNodes(activation, part.nodes, { ...position, prefix: `${path}.${part.name}.` }),
              (end): readonly [string, unknown] => [part.name, end.value]
            )
        }),
        (pairs) => Object.fromEntries(pairs.filter((pair) => pair !== undefined))
      )
    case "branch":
      return Effect.gen(function*() {
        const chosen = activation.at(path, "choice") ??
          (yield* activation.record({
            path,
            kind: "choice",
            body: { branch: yield* pure(path, () => node.choose(results, value)) }
          }))
        const name = Option.getOrUndefined(decodeChoice(chosen.body))?.branch
        const part = node.parts.find((one) => one.name === name)
        if (part === undefined) {
          return yield* failed(
            path,
            `It chose "${name ?? JSON.stringify(chosen.body)}", but its branches are ${
              node.parts.map((one) => one.name).join(", ")
            }.`
          )
        }
        return (yield* runNodes(activation, part.nodes, { ...position, prefix: `${path}.${part.name}.` })).value
      })
    case "sleep":
      return Effect.as(sleepFor(activation, path, () => node.duration(results)), undefined)
    case "waitFor":
      return waitForEvent(activation, node, path, results)
  }
}

/** Runs the nodes of a sequence. Returns the value of the last node. */
export const runNodes = (
  activation: Activation,
  nodes: ReadonlyArray<Node>,
  start: Position,
  isRun = false
): Effect.Effect<Position, NodeFailed, unknown> =>
  Effect.gen(function*() {
    let position = start
    for (const [index, node] of nodes.entries()) {
      if (node.kind === "select") {
        const { results, value } = position
        position = {
          ...position,
          isComputed: true,
          value: yield* pure(`${start.prefix}select`, () => node.select(results, value))
        }
        continue
      }
      const isLast = isRun && index === nodes.length - 1
      const output = yield* runNode(activation, node, `${start.prefix}${node.name}`, position, isLast)
      position = {
        prefix: start.prefix,
        value: node.kind === "sleep" ? position.value : output,
        results: { ...position.results, [node.name]: output },
        isComputed: isComputedAfter(node, position.isComputed)
      }
    }
    return position
  })
