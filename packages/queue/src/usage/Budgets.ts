/**
 * Budgets: an endpoint or an access key that has used its money submits nothing more until the period ends (docs/operations/usage.md#budgets).
 *
 * ```
 *   every 10 s: UsageStore --> costs of the periods --> spent >= limit --> submissions are refused; jobs that were accepted go on
 * ```
 *
 * A submission only looks up whether its endpoint or key is over its budget. Usage reaches the store within `UsageMeter.INTERVAL_MILLIS`, and
 * each node reads it within {@link INTERVAL_MILLIS}. In this time, on every node, and by jobs that were accepted before, a budget is exceeded.
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

/** A limit of what an endpoint or an access key may cost in a period. */
export interface Budget {
  readonly scope: "endpoint" | "key"
  /** The id of the endpoint or of the key. */
  readonly id: string
  /** Days and months begin at 00:00 UTC. */
  readonly period: "daily" | "monthly"
  readonly limit: number
}

/** A budget and what was spent of it. */
export interface BudgetState extends Budget {
  readonly spent: number
  readonly currency: string
  /** When the next period begins. Milliseconds since 1970. */
  readonly renewsAt: number
}

/** The prices and budgets of a platform. Default: no prices, and no budgets. */
export const Budgets = Context.Reference<{
  readonly prices: Prices | undefined
  /** The budget that refuses a submission; undefined when none does. */
  readonly reachedBy: (endpoint: string, key: string) => BudgetState | undefined
  /** All budgets, as of the last reading. */
  readonly list: () => ReadonlyArray<BudgetState>
}>("@stint/queue/Budgets", {
  defaultValue: () => ({ prices: undefined, reachedBy: () => undefined, list: () => [] })
})

/** How often the costs of the periods are read. */
export const INTERVAL_MILLIS = 10_000

/** The period of a time: its beginning, and that of the next. Milliseconds since 1970. */
export const periodOf = (period: Budget["period"], at: number): { readonly from: number; readonly to: number } => {
  const date = new Date(at)
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()]
  return period === "daily"
    ? { from: Date.UTC(year, month, day), to: Date.UTC(year, month, day + 1) }
    : { from: Date.UTC(year, month), to: Date.UTC(year, month + 1) }
}

/** How many hours before the present one are read each time. Earlier ones are read again once an hour: long attempts add to them. */
const RECENT_HOURS = 1

const make = Effect.fnUntraced(function*(prices: Prices, budgets: ReadonlyArray<Budget>) {
  const store = yield* UsageStore
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()

  /** What each budget's endpoint or key cost in the part of its period that lies between two hours. */
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
        `New jobs are refused until ${new Date(state.renewsAt).toISOString()}; accepted ones go on.`
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
      // Of two, the one that ends later: it decides when the caller may come back.
      if (known === undefined || known.renewsAt < state.renewsAt) reached[state.scope].set(state.id, state)
      if (!before.has(`${state.scope} ${state.id} ${state.period} ${state.renewsAt}`)) yield* report(state)
    }
  })

  const outage = OutageLog.make({
    onFailure: (problem) =>
      Effect.logWarning(`The costs of the budgets cannot be read, so that they stay as they were: ${problem}`),
    onRecovery: Effect.logInfo("The costs of the budgets are read again.")
  })
  if (budgets.length > 0) {
    // Before the first submission.
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
      // One may have renewed some seconds before the next reading.
      const at = now()
      return [ofEndpoint, ofKey].find((state) => state !== undefined && state.renewsAt > at)
    }
  }
})

/** The budgets of a node. */
export const layer = (prices: Prices, budgets: ReadonlyArray<Budget>): Layer.Layer<never, never, UsageStore> =>
  Layer.effect(Budgets, make(prices, budgets))
