/**
 * Runs sequences of commands against several queues over one store, on a test clock, and checks what callers, workers and readers observe. Each call
 * reaches the node that its command names. Every operation of the store lets other fibers run first, so operations of several calls interleave.
 */
import { assert } from "@effect/vitest"
import { isTerminal } from "@stint/contract/Job"
import { toJsonText } from "@stint/contract/Json"
import type { JobEvent } from "@stint/queue/JobEventCursor"
import { dueAt } from "@stint/store/JobMachine"
import type { JobRecord, JobReport } from "@stint/store/JobRecord"
import { JobStore } from "@stint/store/JobStore"
import type { Nodes } from "@stint/store/Nodes"
import { StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import { recordReads } from "../history/CommandHistory.ts"
import * as History from "../history/History.ts"
import * as Liveness from "../history/Liveness.ts"
import * as NodeNetwork from "../NodeNetwork.ts"
import * as Scenario from "../Scenario.ts"
import { runSeed } from "../SeededRandom.ts"
import * as StoreFaults from "../StoreFaults.ts"
import { type NodeCommand, NODES, type Step, steps } from "./NodeCommands.ts"

const ATTEMPTS = 3

const SETTINGS = {
  leaseMs: 1_000,
  ttlMs: 60_000,
  executionTimeoutMs: 20_000,
  retentionMs: 86_400_000,
  retry: { maxAttempts: ATTEMPTS, onError: true, backoff: { initialMs: 100, maxMs: 1_000 } }
}

/** An operation that never returned is given up after this time of the test clock. Milliseconds. */
const PATIENCE_MILLIS = 60_000

/** More jobs than a sequence submits. */
const MANY = 1_000

/** What a run found. */
export interface Outcome {
  readonly violations: ReadonlyArray<History.Violation>
  /** What happened, one line for each command, response and fault. */
  readonly lines: ReadonlyArray<string>
  readonly jobs: number
}

type Operations = JobStore["Service"]

/** A call that has not returned. */
interface Call {
  readonly node: number
  /** The worker whose long poll it is. */
  readonly worker?: string
  /** The job whose end it waits for. */
  readonly job?: JobRecord["id"]
}

/** A store each of whose operations lets other fibers run first. */
const yielding = (store: Operations): Operations => {
  const later = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> => Effect.andThen(Effect.yieldNow, effect)
  return {
    ...store,
    insert: (...args) => later(store.insert(...args)),
    apply: (...args) => later(store.apply(...args)),
    append: (...args) => later(store.append(...args)),
    claim: (...args) => later(store.claim(...args)),
    tick: (...args) => later(store.tick(...args)),
    applyRunning: (...args) => later(store.applyRunning(...args)),
    get: (...args) => later(store.get(...args)),
    peek: (...args) => later(store.peek(...args))
  }
}

/** A node: its queue, and the faults of its connection to the store. */
const openNode = Effect.fnUntraced(function*(store: Operations, nodes: Nodes["Service"]) {
  const scope = yield* Scope.make()
  const faulty = (given: Operations) =>
    Layer.build(Layer.fresh(StoreFaults.layer(Layer.succeed(JobStore, given)))).pipe(Scope.provide(scope))
  const failing = yield* faulty(yielding(store))
  const inner = Context.get(failing, JobStore)
  const freezing = yield* faulty(inner)
  // Their answers are never delayed: the history records the start of an attempt and the end of a stream when the answer arrives.
  const seen: Operations = { ...Context.get(freezing, JobStore), claim: inner.claim, peek: inner.peek }
  const stores = Context.make(JobStore, seen)
  const scenario = yield* NodeNetwork.queueOf(stores, nodes, SETTINGS).pipe(Scope.provide(scope))
  return {
    ...scenario,
    nodes,
    failures: Context.get(failing, StoreFaults.StoreFaults),
    freezing: Context.get(freezing, StoreFaults.StoreFaults),
    close: Effect.andThen(nodes.leave, Scope.close(scope, Exit.void))
  }
})

type Node = Effect.Success<ReturnType<typeof openNode>>

const isUnavailable = (error: unknown): boolean => error instanceof StoreError && error.reason._tag === "StoreUnavailable"

/** Runs a sequence against an empty store. */
const simulate = Effect.fnUntraced(function*(steps: ReadonlyArray<Step>) {
  const history = History.make()
  let clock = 0
  const at = () => clock++
  const base = yield* JobStore
  const store: Operations = {
    ...base,
    // Recorded here, because the response to a retry may be lost, and the job starts over nevertheless.
    apply: (endpoint, id, event) =>
      Effect.tap(base.apply(endpoint, id, event), ({ _tag }) =>
        Effect.sync(() => {
          if (event._tag === "Retry" && _tag === "Changed") history.record({ _tag: "Retried", at: at(), job: id })
        }))
  }
  const network = NodeNetwork.make()
  const members: Array<Node> = []
  while (members.length < NODES) members.push(yield* openNode(store, network.join()))
  const endpoint = Scenario.endpoint(SETTINGS)
  const found: Array<History.Violation> = []
  const lines: Array<string> = []
  const names = new Map<string, string>()
  const ids: Array<JobRecord["id"]> = []
  const held = new Map<string, Array<JobRecord>>()
  const readers = new Map<string, JobEvent | undefined>()
  const following = new Set<string>()
  /** The idempotency keys of submissions without a response. */
  const unanswered = new Set<string>()
  const chunks = new Map<string, number>()
  const calls = new Map<Fiber.Fiber<unknown, unknown>, Call>()
  const frozen = new Set<number>()

  const nodeAt = (n: number): Node => members[n % members.length] ?? assert.fail("there is no node")
  const name = (id: string): string => {
    const known = names.get(id) ?? `job ${names.size + 1}`
    names.set(id, known)
    return known
  }
  const say = (text: string) =>
    Effect.map(Clock.currentTimeMillis, (now) => void lines.push(`${String(now).padStart(6)} ms  ${text}`))
  const jobOf = (job: number) => ids.length === 0 ? undefined : ids[ids.length - 1 - job % ids.length]
  const heldBy = (worker: string) => held.get(worker) ?? []
  const drop = (worker: string, job: JobRecord) => void held.set(worker, heldBy(worker).filter((one) => one !== job))

  /** Repeats a call whose response was lost, at the next node. */
  const answered = <A, E>(node: number, call: (node: Node) => Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.catchIf(
      Effect.suspend(() => call(nodeAt(node))),
      isUnavailable,
      () => Effect.andThen(Effect.yieldNow, answered(node + 1, call))
    )

  const observe = Effect.fnUntraced(function*(node: number, id: JobRecord["id"]) {
    const askedAt = at()
    const job: JobReport = yield* nodeAt(node).queue.get(endpoint.id, id)
    const { attempt, output, status } = job
    history.record({ _tag: "Seen", at: at(), askedAt, job: id, status, attempt, output: isTerminal(status) ? output : null })
    yield* say(`node ${node + 1}: ${name(id)} is ${status}${isTerminal(status) ? ` with ${output}` : ""}`)
    return job
  })

  const deliver = Effect.fnUntraced(
    function*({ fails, node, worker }: Extract<NodeCommand, { _tag: "Deliver" }>, job: JobRecord) {
      drop(worker, job)
      const askedAt = at()
      const output = `attempt ${job.attempt}`
      const verdict = yield* answered(node, (one) => fails ? one.fail(job, "no such city") : one.finish(job, output)).pipe(
        Effect.match({ onFailure: () => "refused" as const, onSuccess: (delivery) => delivery })
      )
      history.record({
        _tag: "Delivered",
        at: at(),
        askedAt,
        job: job.id,
        worker,
        attempt: job.attempt,
        verdict,
        failed: fails,
        output: fails ? null : toJsonText(output)
      })
      yield* say(
        `node ${node + 1}: ${worker} delivers ${fails ? "an error" : "a result"} of ${
          name(job.id)
        }, attempt ${job.attempt}: ${verdict}`
      )
    }
  )

  const chunk = Effect.fnUntraced(function*(node: number, job: JobRecord) {
    const key = `${job.id} ${job.attempt}`
    const number = (chunks.get(key) ?? 0) + 1
    chunks.set(key, number)
    const output = toJsonText(`${job.attempt}.${number}`)
    const askedAt = at()
    const written = yield* Effect.exit(answered(node, ({ queue }) => queue.append(Scenario.holderOf(job), output, number)))
    if (!Exit.isSuccess(written) || written.value !== "accepted") return
    history.record({ _tag: "ChunkWritten", at: at(), askedAt, job: job.id, attempt: job.attempt, number, output })
    yield* say(`node ${node + 1}: chunk ${number} of ${name(job.id)}, attempt ${job.attempt}`)
  })

  const submit = Effect.fnUntraced(function*(node: number, key: string) {
    unanswered.add(key)
    const { id } = yield* answered(node, (one) => one.submit({ idempotencyKey: key, input: toJsonText(key) }))
    unanswered.delete(key)
    if (!ids.includes(id)) ids.push(id)
    history.record({ _tag: "Submitted", at: at(), job: id, key, attempts: ATTEMPTS })
    yield* say(`node ${node + 1}: submits ${name(id)} with the key "${key}"`)
  })

  /** `id`: the job of a caller's command. */
  const run = (command: NodeCommand, id: JobRecord["id"] | undefined): Effect.Effect<unknown, unknown> => {
    switch (command._tag) {
      case "Submit":
        return submit(command.node, `order ${command.key}`)
      case "Take":
        return Effect.gen(function*() {
          const { limit, node, waitMs, worker } = command
          yield* say(`node ${node + 1}: ${worker} asks for ${limit} jobs, and waits ${waitMs} ms`)
          const jobs = yield* nodeAt(node).take(worker, { limit, waitMs, holding: heldBy(worker).length > 0 })
          for (const job of jobs) {
            history.record({ _tag: "Started", at: at(), job: job.id, worker, attempt: job.attempt })
            held.set(worker, [...heldBy(worker), job])
            yield* say(`node ${node + 1}: ${worker} takes ${name(job.id)}, attempt ${job.attempt}`)
          }
        })
      case "Deliver": {
        const jobs = heldBy(command.worker)
        const job = jobs[command.job % Math.max(1, jobs.length)]
        return job === undefined ? Effect.void : deliver(command, job)
      }
      case "Chunk": {
        const jobs = heldBy(command.worker)
        const job = jobs[command.job % Math.max(1, jobs.length)]
        return job === undefined ? Effect.void : chunk(command.node, job)
      }
      case "Heartbeat":
        return nodeAt(command.node).queue.heartbeat(
          endpoint.id,
          command.worker,
          command.names ? heldBy(command.worker).map(({ id }) => id) : []
        )
      case "Die": {
        held.set(command.worker, [])
        const dying = say(`node ${command.node + 1}: ${command.worker} is killed${command.noticed ? "" : ", unnoticed"}`)
        if (!command.noticed) return dying
        return Effect.andThen(
          dying,
          answered(
            command.node,
            ({ queue }) => queue.workerGone(endpoint.id, command.worker, "The worker was killed by SIGKILL.")
          )
        )
      }
      case "Cancel":
        return Effect.gen(function*() {
          if (id === undefined) return
          const { status } = yield* answered(command.node, ({ queue }) => queue.cancel(endpoint.id, id))
          if (status === "CANCELLED") history.record({ _tag: "Cancelled", at: at(), job: id })
          yield* say(`node ${command.node + 1}: cancels ${name(id)}, which is ${status}`)
        })
      case "Retry":
        return Effect.gen(function*() {
          if (id === undefined) return
          yield* nodeAt(command.node).queue.retry(endpoint.id, id)
          yield* say(`node ${command.node + 1}: retries ${name(id)}`)
        })
      case "Read":
        return id === undefined ? Effect.void : observe(command.node, id)
      case "Follow":
        return Effect.gen(function*() {
          if (id === undefined || following.has(id)) return
          following.add(id)
          const { queue } = nodeAt(command.node)
          const reader = `reader of ${name(id)}`
          yield* queue.follow(endpoint.id, id, Scenario.resumeAfter(readers.get(id))).pipe(
            Stream.take(command.events),
            Stream.runForEach((event) =>
              Effect.sync(() => {
                readers.set(id, event)
                recordReads(history, at, reader, [event], id)
              })
            ),
            Effect.ensuring(Effect.sync(() => following.delete(id)))
          )
        })
      case "Await":
        return id === undefined ? Effect.void : Effect.asVoid(nodeAt(command.node).queue.awaitEnd(endpoint.id, id, 5_000))
      case "Tick":
        return Effect.andThen(say(`node ${command.node + 1}: fires what is due`), nodeAt(command.node).queue.tick)
      case "FailWrite": {
        const { dropNextAnswers, failNextWrites } = nodeAt(command.node).failures
        return Effect.andThen(
          say(`node ${command.node + 1}: the next write ${command.stored ? "is stored, and its answer is lost" : "fails"}`),
          (command.stored ? dropNextAnswers : failNextWrites)(1)
        )
      }
      case "Freeze":
        frozen.add(command.node)
        return Effect.andThen(say(`node ${command.node + 1}: the store no longer answers`), nodeAt(command.node).freezing.freeze)
      case "Thaw":
        frozen.delete(command.node)
        return Effect.andThen(say(`node ${command.node + 1}: the store answers again`), nodeAt(command.node).freezing.thaw)
      case "LoseHints":
        if (command.lost) network.state.lost = true
        else network.restore()
        return say(`hints between nodes ${command.lost ? "are lost" : "arrive again"}`)
      case "Pass":
      case "Restart":
        return Effect.void
    }
  }

  const restart = Effect.fnUntraced(function*(n: number) {
    yield* say(`node ${n + 1}: is killed and starts again`)
    const old = nodeAt(n)
    frozen.delete(n)
    yield* old.freezing.thaw
    // A call may wait at another node, where its repetition is frozen.
    for (const [fiber, { node }] of calls) if (node === n) yield* Effect.forkChild(Fiber.interrupt(fiber))
    yield* old.close
    members[n] = yield* openNode(store, network.join())
  })

  const start = Effect.fnUntraced(function*({ command, lag }: Step) {
    if (command._tag === "Pass" || command._tag === "Restart") return
    const id = "job" in command ? jobOf(command.job) : undefined
    const fiber = yield* Effect.forkChild(Effect.andThen(
      Effect.replicateEffect(Effect.yieldNow, lag, { discard: true }),
      Effect.suspend(() => run(command, id))
    ))
    const node = "node" in command ? command.node : 0
    calls.set(fiber, {
      node,
      ...(command._tag === "Take" && command.waitMs > 0 ? { worker: command.worker } : {}),
      ...(command._tag === "Await" && id !== undefined ? { job: id } : {})
    })
  })

  /** R5: a waiting call returns at once. */
  const checkWaits = Effect.gen(function*() {
    const { waiting } = yield* store.depth(endpoint.id)
    const { jobs } = yield* store.list(endpoint.id, { limit: MANY })
    for (const [fiber, { job, node, worker }] of calls) {
      if (Scenario.isDone(fiber)) continue
      // A job whose worker was lost runs alone: for its sake, a worker may have to wait although jobs are ready.
      const isHeldBack = jobs.some(({ isolated, status, worker: runs }) =>
        isolated && (status === "IN_QUEUE" || (status === "IN_PROGRESS" && runs === worker))
      )
      if (worker !== undefined && waiting > 0 && !isHeldBack) {
        found.push({ rule: "R5", job: "", text: `${worker} waits at node ${node + 1} although ${waiting} jobs are ready` })
      }
      const ended = jobs.find(({ id, status }) => id === job && isTerminal(status))
      if (ended !== undefined) {
        found.push({ rule: "R5", job: ended.id, text: `a caller waits at node ${node + 1} although the job is ${ended.status}` })
      }
    }
  })

  const settle = Effect.gen(function*() {
    yield* Scenario.settle
    for (const [fiber] of calls) if (Scenario.isDone(fiber)) calls.delete(fiber)
    for (const text of yield* Liveness.violations(store, endpoint.id, yield* Clock.currentTimeMillis)) {
      found.push({ rule: "R5", job: "", text })
    }
  })

  for (const step of steps) {
    const { command, together } = step
    if (command._tag === "Restart") yield* restart(command.node)
    if (command._tag === "Pass") yield* TestClock.adjust(command.ms)
    yield* start(step)
    if (together) continue
    yield* settle
    // A node without hints, or without answers from the store, does not know of changes.
    if (frozen.size === 0 && !network.state.lost) yield* checkWaits
    if (found.length > 0) break
  }

  // The faults stop. From now on only time passes, and ends all jobs.
  yield* settle
  for (const { failures, freezing } of members) {
    yield* Effect.all([freezing.thaw, failures.dropNextAnswers(0), failures.failNextWrites(0)])
  }
  network.restore()
  yield* settle
  // Callers repeat a submission until it is answered.
  for (const key of unanswered) yield* submit(0, key)
  for (let sweep = 0; sweep < 20; sweep++) {
    // Also jobs whose submission was never acknowledged.
    const open = (yield* store.list(endpoint.id, { limit: MANY })).jobs.filter(({ status }) => !isTerminal(status))
    if (open.length === 0) break
    yield* TestClock.setTime(Math.max(yield* Clock.currentTimeMillis, ...open.map(dueAt)))
    yield* settle
    while (yield* nodeAt(sweep).queue.tick);
  }
  yield* TestClock.adjust(PATIENCE_MILLIS)
  yield* settle
  for (const [fiber] of calls) yield* Fiber.interrupt(fiber)
  for (const id of ids) yield* observe(0, id)
  const { delayed, running, waiting } = yield* store.depth(endpoint.id)
  if (delayed + running + waiting > 0) {
    found.push({ rule: "R5", job: "", text: `${delayed} delayed, ${running} running and ${waiting} waiting jobs are left` })
  }
  for (const { close } of members) yield* close
  const named = ({ job, rule, text }: History.Violation) => ({
    rule,
    job: job === "" ? "" : name(job),
    text: ids.reduce((all, id) => all.replaceAll(id, name(id)), text)
  })
  return { violations: [...found, ...history.check({ mayForget: true })].map(named), lines, jobs: ids.length }
})

/** Runs a sequence against an empty store of this layer. The same sequence has the same outcome. */
const run = <E>(store: Layer.Layer<JobStore, E>, steps: ReadonlyArray<Step>): Effect.Effect<Outcome, unknown> =>
  Effect.scoped(simulate(steps)).pipe(
    Effect.provide(Layer.fresh(store), { local: true }),
    Random.withSeed(1),
    Effect.provide(TestClock.layer(), { local: true })
  )

/** What happened, and what is wrong, for a person to read. */
const describe = ({ lines, violations }: Outcome): string =>
  [...lines, ...violations.map(({ job, rule, text }) => `  ==> ${rule}${job === "" ? "" : `, ${job}`}: ${text}`)].join("\n")

/** Runs random sequences. Fails with the shortest one that breaks a rule, as text. Returns the number of jobs. */
export const search = <E>(
  store: Layer.Layer<JobStore, E>,
  { runs, seed = runSeed() }: { readonly runs: number; readonly seed?: number }
) =>
  Effect.promise(async () => {
    let jobs = 0
    let failed: Outcome | undefined
    const property = fc.asyncProperty(steps, async (sequence) => {
      const outcome = await Effect.runPromise(run(store, sequence))
      jobs += outcome.jobs
      if (outcome.violations.length === 0) return true
      failed = outcome
      return false
    })
    const { failed: isFailed, numRuns, numShrinks, errorInstance } = await fc.check(property, { numRuns: runs, seed })
    if (!isFailed) return { jobs }
    throw new Error(
      failed === undefined
        ? `seed ${seed}: ${errorInstance instanceof Error ? errorInstance.stack : String(errorInstance)}`
        : `seed ${seed}, sequence ${numRuns}, shortened ${numShrinks} times:\n${describe(failed)}`
    )
  })
