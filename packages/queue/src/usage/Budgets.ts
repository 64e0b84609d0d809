/**
 * Budgets: when an endpoint or an access key has used its budget, its submissions are rejected until the period ends
 * (docs/operations/usage.md#budgets).
 *
 * ```
 *   every 10 s: UsageStore --> costs of the periods --> spent >= limit --> submissions are refused; accepted jobs continue
 * ```
 *
 * A submission only looks up whether its endpoint or key is over its budget. Usage reaches the store within `UsageMeter.INTERVAL_MILLIS`, and
 * each node reads it within {@link INTERVAL_MILLIS}. Submissions during this delay, on every node, and jobs that were accepted before can exceed a
 * budget.
 */
import * as OutageLog from "@stint/store/OutageLog"
import { HOUR_MILLIS, UsageStore } from "@stint/store/UsageStore"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import { costOf, type Prices } from "./Billing.ts"
import { hourOf } from "./UsageHours.ts"
import { readUsage } from "./UsageReader.ts"

/** The maximum cost of an endpoint or an access key in a period. */
export interface Budget {
  readonly scope: "endpoint" | "key"
  /** The id of the endpoint or of the key. */
  readonly id: string
  /** Days and months begin at 00:00 UTC. */
  readonly period: "daily" | "monthly"
  readonly limit: number
}

/** A budget, and how much of it was spent. */
export interface BudgetState extends Budget {
  readonly spent: number
  readonly currency: string
  /** When the next period begins. Milliseconds since 1970. */
  readonly renewsAt: number
}

/** The prices and budgets of a platform. Default: no prices, and no budgets. */
export const Budgets = Context.Reference<{
  readonly prices: Prices | undefined
  /** The budget that rejects a submission; undefined if none does. */
  readonly reachedBy: (endpoint: string, key: string) => BudgetState | undefined
  /** All budgets, as of the last read. */
  readonly list: () => ReadonlyArray<BudgetState>
}>("@stint/queue/Budgets", {
  defaultValue: () => ({ prices: undefined, reachedBy: () => undefined, list: () => [] })
})

/** How often the costs of the periods are read. */
export const INTERVAL_MILLIS = 10_000

/** The beginning of the period that contains a time, and of the next period. Milliseconds since 1970. */
export const periodOf = (period: Budget["period"], at: number): { readonly from: number; readonly to: number } => {
  const date = new Date(at)
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()]
  return period === "daily"
    ? { from: Date.UTC(year, month, day), to: Date.UTC(year, month, day + 1) }
    : { from: Date.UTC(year, month), to: Date.UTC(year, month + 1) }
}

/**
 * How many hours before the present one are read each time. Earlier hours are read again only once an hour, because long attempts still add to them.
 */
const RECENT_HOURS = 1

const make = Effect.fnUntraced(function*(prices: Prices, budgets: ReadonlyArray<Budget>) {
  const store = yield* UsageStore
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()

  /** The cost of each budget's endpoint or key in the part of its period between two hours. */
  const costsBetween = Effect.fnUntraced(function*(from: number, to: number, at: number) {
    const costs = budgets.map(() => 0)
    const begins = budgets.map(({ period }) => periodOf(period, at).from)
    yield* readUsage(store, { from: Math.max(from, Math.min(...begins)), to }, (record) => {
      for (const [index, { id, scope }] of budgets.entries()) {
        if (record[scope] !== id || record.hour < (begins[index] ?? 0)) continue
        costs[index] = (costs[index] ?? 0) + costOf(prices, record.endpoint, record)
      }
    })
    return costs
  })

  let earlier: { readonly hour: number; readonly costs: ReadonlyArray<number> } | undefined
  let states: ReadonlyArray<BudgetState> = []
  const reached: Readonly<Record<Budget["scope"], Map<string, BudgetState>>> = { endpoint: new Map(), key: new Map() }

  const report = (state: BudgetState) =>
    Effect.logWarning(
      `The ${state.period} budget of ${state.scope} ${state.id} is reached: ${
        state.spent.toFixed(2)
      } of ${state.limit} ${state.currency}. ` +
        `New jobs are refused until ${new Date(state.renewsAt).toISOString()}; accepted jobs continue.`
    )

  const refresh = Effect.gen(function*() {
    const at = now()
    const hour = hourOf(at) - RECENT_HOURS * HOUR_MILLIS
    if (earlier?.hour !== hour) earlier = { hour, costs: yield* costsBetween(0, hour, at) }
    const recent = yield* costsBetween(hour, Number.MAX_SAFE_INTEGER, at)
    const before = new Set(
      states.filter(({ limit, spent }) => spent >= limit).map(({ id, period, renewsAt, scope }) =>
        `${scope} ${id} ${period} ${renewsAt}`
      )
    )
    const { costs } = earlier
    states = budgets.map((budget, index) => ({
      ...budget,
      spent: (costs[index] ?? 0) + (recent[index] ?? 0),
      currency: prices.currency,
      renewsAt: periodOf(budget.period, at).to
    }))
    reached.endpoint.clear()
    reached.key.clear()
    for (const state of states) {
      if (state.spent < state.limit) continue
      const known = reached[state.scope].get(state.id)
      // Of two budgets, the one that renews later, because the caller cannot submit before that.
      if (known === undefined || known.renewsAt < state.renewsAt) reached[state.scope].set(state.id, state)
      if (!before.has(`${state.scope} ${state.id} ${state.period} ${state.renewsAt}`)) yield* report(state)
    }
  })

  const outage = OutageLog.make({
    onFailure: (problem) =>
      Effect.logWarning(`The costs of the budgets cannot be read; the last known values stay in force: ${problem}`),
    onRecovery: Effect.logInfo("The costs of the budgets can be read again.")
  })
  if (budgets.length > 0) {
    // Completes before the first submission.
    yield* outage.watch(refresh)
    yield* Effect.forkScoped(
      Effect.delay(Effect.repeat(outage.watch(refresh), Schedule.spaced(Duration.millis(INTERVAL_MILLIS))), INTERVAL_MILLIS)
    )
  }

  return {
    prices,
    list: () => states,
    reachedBy: (endpoint: string, key: string) => {
      if (states.length === 0) return undefined
      const ofEndpoint = reached.endpoint.get(endpoint)
      const ofKey = reached.key.get(key)
      if (ofEndpoint === undefined && ofKey === undefined) return undefined
      // A budget may have been renewed a few seconds before the next read.
      const at = now()
      return [ofEndpoint, ofKey].find((state) => state !== undefined && state.renewsAt > at)
    }
  }
})

/** The budgets of a node. */
export const layer = (prices: Prices, budgets: ReadonlyArray<Budget>): Layer.Layer<never, never, UsageStore> =>
  Layer.effect(Budgets, make(prices, budgets))
