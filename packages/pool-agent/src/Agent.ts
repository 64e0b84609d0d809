/**
 * An agent: reports its machine's state to the platform, and carries out the orders that it receives (docs/decisions/0076-agents.md).
 *
 * ```
 *   report --> orders --> workers ---------+
 *     ^  ^                                 | a change, or a new line
 *     |  +---------------------------------+
 *     +-- changes: the orders differ, or 3 s are over
 * ```
 *
 * The agent calls the platform; the platform never calls the agent. While the platform cannot be reached, its workers continue. On shutdown, the
 * agent reports that it is leaving; its workers finish their jobs, and after `shutdownGrace` it kills the remaining ones.
 */
import {
  AGENT_PROTOCOL,
  type AgentCapacity,
  type AgentOrders,
  type AgentReport,
  CHANGES_WAIT_MILLIS
} from "@stint/contract/Agent"
import type { Labels } from "@stint/contract/Placement"
import { WorkerPool } from "@stint/pool/WorkerPool"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import { AgentOutput } from "./AgentOutput.ts"
import * as AgentWorkers from "./AgentWorkers.ts"
import type { LinkError, PlatformLink } from "./PlatformLink.ts"
import * as ReportSize from "./ReportSize.ts"

/** Options of an agent. */
export interface Options {
  readonly link: PlatformLink
  /** The platform's address for this machine's workers, without a trailing slash. */
  readonly address: string
  /** Identifies the data folder, so that a restarted agent takes over its own connection. */
  readonly instance: string
  readonly version: string
  readonly capacity: AgentCapacity
  /** This machine's volume names. */
  readonly volumes: ReadonlyArray<string>
  /** This machine's labels. Default: none. */
  readonly labels?: Labels
  /** Whether an operator has drained this machine, and how to store a change. */
  readonly drained: { readonly initial: boolean; readonly store: (isDrained: boolean) => Effect.Effect<void> }
  /** Time for running jobs to finish when the layer closes. Default: 30 s. */
  readonly shutdownGrace?: Duration.Input
}

/** The shortest time between two reports: lines that are printed meanwhile are sent together. Milliseconds. */
const PAUSE_MILLIS = 10

/** The time between two reports while the platform accepts no lines, because its sink is slow. Milliseconds. */
const HELD_UP_MILLIS = 250

/** The time before the first retry of a failed call. It doubles up to {@link LONGEST_WAIT_MILLIS}. */
const FIRST_WAIT_MILLIS = 250

/** Below a third of the lease, so that the end of an interruption is noticed within the lease. */
const LONGEST_WAIT_MILLIS = 3_000

/** The clock difference above which a warning is logged. It makes times in logs hard to compare; leases do not depend on it. Milliseconds. */
const SKEW_MILLIS = 5_000

/** How long a stopping agent tries to report the end of its killed workers. */
const FAREWELL = "5 seconds"

const make = Effect.fnUntraced(function*(options: Options) {
  const { address, capacity, drained, instance, labels = {}, link, version, volumes } = options
  const pool = yield* WorkerPool
  const output = yield* AgentOutput
  const clock = yield* Clock.Clock
  const now = () => Number(clock.currentTimeNanosUnsafe() / 1_000_000n)
  const run = (yield* Random.nextIntBetween(0, 2 ** 48)).toString(36)
  const dirty = Latch.makeUnsafe(true)
  const workers = yield* AgentWorkers.make({ link, address, maximum: capacity.workers, changed: () => void dirty.openUnsafe() })
  /** Open while there is an epoch whose changes can be awaited. */
  const joined = Latch.makeUnsafe()
  /** Opened when a response to a report has arrived. */
  const reported = Latch.makeUnsafe()
  let connection: Pick<AgentOrders, "epoch" | "revision"> | undefined
  let number = 0
  let answered: number | undefined
  let leaseUntil = -Infinity
  let isDrained = drained.initial
  let isLeaving = false
  let failures = 0
  let said: string | undefined
  let isSkewReported = false
  const platforms: Array<string> = []
  const reportSize = ReportSize.make()

  const compose = (all: AgentReport["workers"]): AgentReport => ({
    protocol: AGENT_PROTOCOL,
    version,
    instance,
    run,
    ...(connection === undefined ? {} : { epoch: connection.epoch }),
    number: ++number,
    ...(answered === undefined ? {} : { answered }),
    capacity,
    supports: pool.supports.filter((type) => type !== "external"),
    volumes,
    labels,
    isDrained,
    isLeaving,
    workers: all
  })

  const checkSkew = (at: number, sentAt: number, took: number) => {
    const skew = sentAt + took / 2 - at
    if (isSkewReported || Math.abs(skew) - took / 2 <= SKEW_MILLIS) return Effect.void
    isSkewReported = true
    return Effect.logWarning(
      `This machine's clock is ${Math.round(Math.abs(skew) / 1_000)} s ${
        skew > 0 ? "ahead of" : "behind"
      } the platform's. Jobs are not affected, ` +
        "but times in logs cannot be compared. Synchronize the clocks, for example with chrony."
    )
  }

  /** An address that leads to several nodes in turn cannot work, because each of them gives its own orders. */
  const checkPlatform = (platform: string) => {
    if (platforms.at(-1) === platform) return Effect.void
    const alternates = platforms.includes(platform)
    platforms.push(platform)
    if (platforms.length > 10) platforms.shift()
    return alternates
      ? Effect.logError(
        "The address leads to several nodes of a platform. Give the agent the address of one node (docs/operations/agents.md#several-nodes)."
      )
      : Effect.void
  }

  const reportOnce = Effect.gen(function*() {
    dirty.closeUnsafe()
    const sentAt = now()
    const wallClock = clock.currentTimeMillisUnsafe()
    const state = workers.report(reportSize.current())
    const report = compose(state.workers)
    const orders = yield* Effect.tapError(link.report(report), ({ kind }) =>
      Effect.sync(() => {
        if (kind === "unreachable") reportSize.lost()
      }))
    reportSize.arrived(state.size, now() - sentAt)
    answered = report.number
    leaseUntil = sentAt + orders.leaseMs
    const isNew = connection?.epoch !== orders.epoch
    // An epoch that ends before its second report does not count as a success.
    if (!isNew) failures = 0
    connection = { epoch: orders.epoch, revision: orders.revision }
    if (isNew) {
      joined.openUnsafe()
      said = undefined
      yield* checkPlatform(orders.platform)
      yield* Effect.logInfo(`Joined the platform at ${address}.`)
    }
    yield* checkSkew(orders.at, wallClock, now() - sentAt)
    if (orders.isDrained !== isDrained) {
      isDrained = orders.isDrained
      yield* drained.store(isDrained)
      yield* Effect.logInfo(
        isDrained ? "An operator has drained this machine: it starts no more workers." : "This machine starts workers again."
      )
      dirty.openUnsafe()
    }
    yield* workers.obey(orders.workers, () => now() < leaseUntil)
    reported.openUnsafe()
  })

  /** Logs the problem once, and waits. */
  const onFailure = Effect.fnUntraced(function*({ hint, kind, problem }: LinkError) {
    dirty.openUnsafe()
    if (kind === "conflict" && connection !== undefined) {
      connection = undefined
      joined.closeUnsafe()
      yield* Effect.logWarning(
        "The platform has closed this agent's connection, because it did not hear from the agent in time. Joining again."
      )
    } else if (said !== problem) {
      said = problem
      yield* Effect.logError(`${problem} ${hint} Trying again; running workers continue.`)
    }
    yield* Effect.sleep(Math.min(LONGEST_WAIT_MILLIS, FIRST_WAIT_MILLIS * 2 ** failures))
    failures += 1
  })

  const reporting = Effect.gen(function*() {
    while (true) {
      yield* dirty.await
      const waiting = output.waiting()
      yield* Effect.catch(reportOnce, onFailure)
      const left = output.waiting()
      if (left > 0) dirty.openUnsafe()
      yield* Effect.sleep(left > 0 && left >= waiting ? HELD_UP_MILLIS : PAUSE_MILLIS)
    }
  })

  /** Asks for a report when the orders have changed, and every few seconds. */
  const watching = Effect.gen(function*() {
    while (true) {
      yield* joined.await
      const known = connection
      if (known === undefined) continue
      const changes = yield* Effect.option(link.changes(known.epoch, known.revision))
      yield* workers.measure
      reported.closeUnsafe()
      dirty.openUnsafe()
      // The next call needs the revision of the next report.
      yield* reported.await
      if (changes._tag === "None") yield* Effect.sleep(CHANGES_WAIT_MILLIS / 5)
    }
  })

  const printing = Effect.forever(Effect.andThen(output.printed, Effect.sync(() => dirty.openUnsafe())))

  yield* Effect.forkScoped(reporting)
  yield* Effect.forkScoped(watching)
  yield* Effect.forkScoped(printing)

  const until = (isDone: () => boolean) => Effect.repeat(Effect.sleep("50 millis"), { until: isDone })

  yield* Effect.addFinalizer(() =>
    Effect.gen(function*() {
      isLeaving = true
      dirty.openUnsafe()
      yield* Effect.timeoutOption(Effect.interruptible(until(() => workers.live() === 0)), options.shutdownGrace ?? "30 seconds")
      yield* workers.killAll
      const isKnown = connection !== undefined
      yield* Effect.timeoutOption(
        Effect.interruptible(until(() => isKnown ? workers.all() === 0 : workers.live() === 0)),
        FAREWELL
      )
    })
  )
})

/** The agent, which runs while the layer's scope is open. */
export const layer = (options: Options): Layer.Layer<never, never, WorkerPool | AgentOutput> => Layer.effectDiscard(make(options))
