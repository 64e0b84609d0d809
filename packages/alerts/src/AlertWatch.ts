/**
 * Finds problems and reports them to operators. Runs only if receivers are configured.
 *
 * ```
 *   events --> AlertCounts        at once, in memory
 *   every `interval`: endpoints, depths, workers, the store's space + AlertCounts --> conditions --> notices --> receivers, events
 * ```
 *
 * | option | default | |
 * |---|---|---|
 * | `interval` | 15 s | time between checks; each check reads the endpoints, and the depth and workers of each. PostgreSQL counts a depth with a query |
 * | `resolve` | 2 min | how long a condition must be absent before its alert is resolved; shorter times report flapping conditions more often |
 *
 * The state is in memory. After a restart, an alert whose condition still holds fires again with the same fingerprint; if the condition has
 * ended in the meantime, no message resolves the alert, so receivers must close alerts that are no longer repeated.
 */
import type { AlertMessage } from "@stint/contract/Alert"
import { EndpointId } from "@stint/contract/Ids"
import { GuardedHttp } from "@stint/http-guard/GuardedHttp"
import { Budgets } from "@stint/queue/Budgets"
import { PlatformEvents } from "@stint/queue/PlatformEvents"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import { Alerts } from "@stint/server/Alerts"
import { PublicAddress } from "@stint/server/PublicAddress"
import { BuildStore } from "@stint/store/BuildStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import * as OutageLog from "@stint/store/OutageLog"
import { StoreCondition } from "@stint/store/StoreCondition"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as AlertCounts from "./AlertCounts.ts"
import * as AlertMachine from "./AlertMachine.ts"
import * as AlertRules from "./AlertRules.ts"
import * as AlertSender from "./AlertSender.ts"

const isEndpointId = Schema.is(EndpointId)

/** The conditions to watch, and the receivers of alerts. */
export interface Options {
  readonly receivers: AlertSender.Receivers
  readonly thresholds: AlertRules.Thresholds
  /** How long until a firing alert is repeated. */
  readonly repeat: Duration.Duration
  /** Default: 15 s. */
  readonly interval?: Duration.Input
  /** Default: 2 min. */
  readonly resolve?: Duration.Input
}

const make = Effect.fnUntraced(
  function*({ interval = "15 seconds", receivers, repeat, resolve = "2 minutes", thresholds }: Options) {
    const endpoints = yield* EndpointStore
    const builds = yield* BuildStore
    const jobs = yield* JobStore
    const registry = yield* WorkerRegistry
    const storeCondition = yield* StoreCondition
    const events = yield* PlatformEvents
    const budgets = yield* Budgets
    const { baseUrl: platform } = yield* PublicAddress
    const sender = yield* AlertSender.make(yield* GuardedHttp, receivers)
    const counts = AlertCounts.make(thresholds.windowMs)
    yield* events.listen(counts.listener)

    const pace = { repeatMs: Duration.toMillis(repeat), resolveMs: Duration.toMillis(Duration.fromInputUnsafe(resolve)) }
    const repeatSeconds = Math.round(pace.repeatMs / 1_000)
    let state: AlertMachine.AlertState = new Map()

    const observe = Effect.fnUntraced(function*(id: EndpointId, now: number) {
      const { oldestQueuedAt } = yield* jobs.depth(id)
      const workers = yield* registry.list(id)
      const works = workers.some((worker) => worker.state === "idle" || worker.state === "running")
      const failed = workers.find((worker) => worker.state === "unhealthy")
      return {
        id,
        oldestQueuedAt,
        workerProblem: works ? undefined : failed?.reason ?? undefined,
        ...counts.ofEndpoint(id, now)
      } satisfies AlertRules.EndpointObservation
    })

    /** Endpoints that do not exist yet because their first build failed. Their builds are removed with them. */
    const unbuilt = Effect.fnUntraced(function*(listed: ReadonlySet<string>, now: number) {
      const found: Array<AlertRules.EndpointObservation> = []
      for (const [id, build] of counts.failedBuilds()) {
        if (listed.has(id) || !isEndpointId(id) || (yield* builds.get(id, build)) === undefined) continue
        found.push({ id, oldestQueuedAt: null, workerProblem: undefined, ...counts.ofEndpoint(id, now) })
      }
      return found
    })

    /**
     * The alerts, except those of endpoints that have moved to another node. That node reports them, and a resolved message from this node
     * would close them.
     */
    const withoutMoved = Effect.fnUntraced(function*(watched: ReadonlySet<string>) {
      const kept = new Map(state)
      for (const [fingerprint, { condition: { endpoint } }] of state) {
        if (endpoint === undefined || watched.has(endpoint)) continue
        if ((yield* endpoints.get(endpoint)) !== undefined) kept.delete(fingerprint)
      }
      return kept
    })

    const report = Effect.fnUntraced(function*({ alert, notice, resolvedAt, type }: AlertMachine.Notice) {
      const { firedAt: _firedAt, action, ...said } = alert
      const isFirst = notice === 1
      if (isFirst) yield* Effect.logWarning(`Alert: ${alert.summary} ${action}`)
      if (resolvedAt !== null) yield* Effect.logInfo(`Alert resolved: ${alert.fingerprint}`)
      if (events.isOpen() && (isFirst || resolvedAt !== null)) {
        events.publish({ type: resolvedAt === null ? "alert.fired" : "alert.resolved", ...said })
      }
      const message: AlertMessage = {
        type,
        ...alert,
        notice,
        ...(resolvedAt === null ? {} : { resolvedAt }),
        repeatSeconds,
        platform
      }
      yield* sender.send(`${alert.id}-${notice}`, message)
    })

    const check = Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      const all = yield* endpoints.list
      const listed = new Set<string>(all.map(({ id }) => id))
      const built = yield* Effect.forEach(all, ({ id }) => observe(id, now), { concurrency: "unbounded" })
      const observed = [...built, ...(yield* unbuilt(listed, now))]
      const watched = new Set(observed.map(({ id }) => id))
      counts.retain(watched)
      const conditions = AlertRules.conditionsOf({
        now,
        endpoints: observed,
        hosts: counts.hosts(now),
        isDiskLow: storeCondition.isLow(),
        // Each node knows the budgets of all endpoints, but reports only those of its own endpoints.
        budgets: budgets.list().filter(({ id, scope }) => scope === "key" || watched.has(id))
      }, thresholds)
      const next = AlertMachine.step(yield* withoutMoved(watched), conditions, now, pace)
      state = next.state
      yield* Effect.forEach(next.notices, report, { discard: true })
    })

    const outage = OutageLog.make({
      onFailure: (problem) => Effect.logError(`Alerts cannot be checked: ${problem}. Retrying.`),
      onRecovery: Effect.logInfo("Alerts are checked again.")
    })
    // The first check is delayed, because all workers are new at start-up.
    yield* outage.watch(check).pipe(
      Effect.delay(interval),
      Effect.repeat(Schedule.forever),
      Effect.forkScoped
    )

    return {
      list: Effect.map(sender.receivers, (list) => ({ configured: true, alerts: AlertMachine.firing(state), receivers: list })),
      test: Effect.flatMap(Clock.currentTimeMillis, (now) =>
        sender.test(`test-${now}`, {
          type: "alert.test",
          id: `test-${now}`,
          fingerprint: "test",
          kind: "test",
          summary: "This is a test of the platform's alerts. Nothing is wrong.",
          action: "Do nothing.",
          firedAt: now,
          notice: 1,
          repeatSeconds,
          platform
        }))
    }
  }
)

/** Watches while the layer's scope is open. */
export const layer = (
  options: Options
): Layer.Layer<never, never, BuildStore | EndpointStore | JobStore | WorkerRegistry | PublicAddress | GuardedHttp> =>
  Layer.effect(Alerts, make(options))
