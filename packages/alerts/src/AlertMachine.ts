/**
 * Decides which messages to send about the current conditions. Pure: computes the next state and the messages from the state and the conditions.
 *
 * ```
 *   holds for `forMs`        still holds, every `repeatMs`       has not held for `resolveMs`
 *   --------> firing, notice 1 ------> firing, notice 2, 3 ... ------> resolved
 * ```
 *
 * - A condition that holds is reported once, and then repeated at most every `repeatMs`.
 * - Every alert that has fired is resolved once, when its condition has not held for `resolveMs`. A flapping condition therefore does not send a
 *   message each time.
 * - At most {@link MAX_ALERTS} of one kind are tracked. Further conditions are reported when there is room.
 */
import type { Alert, AlertKind } from "@stint/contract/Alert"
import { createHash } from "node:crypto"
import type { Condition } from "./AlertRules.ts"

/** The maximum number of tracked alerts of one kind. Callers choose the hosts of webhooks, so they could cause any number of alerts. */
export const MAX_ALERTS = 100

/** Times in milliseconds. */
export interface Pace {
  readonly repeatMs: number
  readonly resolveMs: number
}

/** A condition that holds, or that has fired and is not resolved yet. All times are in milliseconds since 1970. */
export interface TrackedAlert {
  readonly condition: Condition
  /** When it began to hold. */
  readonly since: number
  /** Null: it has not fired yet. */
  readonly firedAt: number | null
  readonly saidAt: number
  /** The number of messages so far. */
  readonly notices: number
  /** When it stopped holding; null while it holds. */
  readonly clearSince: number | null
}

/** By fingerprint. */
export type AlertState = ReadonlyMap<string, TrackedAlert>

/** What to send. */
export interface Notice {
  readonly type: "alert.firing" | "alert.resolved"
  readonly alert: Alert
  readonly notice: number
  /** Null: it fires. */
  readonly resolvedAt: number | null
}

/** The same on every node, so that two nodes' messages about one occurrence differ only if the nodes saw it at different times. */
const idOf = (fingerprint: string, firedAt: number): string =>
  createHash("sha256").update(`${fingerprint} ${firedAt}`).digest("base64url").slice(0, 16)

const alertOf = ({ forMs: _, ...condition }: Condition, firedAt: number): Alert => ({
  id: idOf(condition.fingerprint, firedAt),
  ...condition,
  firedAt
})

/** The firing alerts, in the order in which they fired. */
export const firing = (state: AlertState): ReadonlyArray<Alert> =>
  [...state.values()]
    .flatMap(({ condition, firedAt }) => firedAt === null ? [] : [alertOf(condition, firedAt)])
    .sort((a, b) => a.firedAt - b.firedAt)

/** A condition that holds: fires, repeats, or sends nothing. */
const holds = (
  known: TrackedAlert | undefined,
  condition: Condition,
  now: number,
  { repeatMs }: Pace
): readonly [TrackedAlert, Notice | undefined] => {
  const tracked: TrackedAlert = known === undefined
    ? { condition, since: now, firedAt: null, saidAt: 0, notices: 0, clearSince: null }
    : { ...known, condition, clearSince: null }
  const isDue = tracked.firedAt === null ? now - tracked.since >= condition.forMs : now - tracked.saidAt >= repeatMs
  if (!isDue) return [tracked, undefined]
  const firedAt = tracked.firedAt ?? now
  const notices = tracked.notices + 1
  return [
    { ...tracked, firedAt, saidAt: now, notices },
    { type: "alert.firing", alert: alertOf(condition, firedAt), notice: notices, resolvedAt: null }
  ]
}

/** A condition that no longer holds. Undefined: it is removed. */
const ends = (known: TrackedAlert, now: number, { resolveMs }: Pace): readonly [TrackedAlert | undefined, Notice | undefined] => {
  const { condition, firedAt, notices } = known
  if (firedAt === null) return [undefined, undefined]
  const clearSince = known.clearSince ?? now
  if (now - clearSince < resolveMs) return [{ ...known, clearSince }, undefined]
  return [
    undefined,
    { type: "alert.resolved", alert: alertOf(condition, firedAt), notice: notices + 1, resolvedAt: clearSince }
  ]
}

/** The next state, and what to send. `conditions` has at most one condition for each fingerprint. */
export const step = (
  state: AlertState,
  conditions: ReadonlyArray<Condition>,
  now: number,
  pace: Pace
): { readonly state: AlertState; readonly notices: ReadonlyArray<Notice> } => {
  const next = new Map<string, TrackedAlert>()
  const notices: Array<Notice> = []
  const counts = new Map<AlertKind, number>()
  const keep = (tracked: TrackedAlert | undefined, notice: Notice | undefined) => {
    if (notice !== undefined) notices.push(notice)
    if (tracked === undefined) return
    const { fingerprint, kind } = tracked.condition
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
    next.set(fingerprint, tracked)
  }
  const held = new Map(conditions.map((condition) => [condition.fingerprint, condition]))
  // Known alerts come first, so that a new alert never displaces a firing one.
  for (const [fingerprint, known] of state) {
    const condition = held.get(fingerprint)
    keep(...(condition === undefined ? ends(known, now, pace) : holds(known, condition, now, pace)))
  }
  for (const condition of conditions) {
    if (state.has(condition.fingerprint) || (counts.get(condition.kind) ?? 0) >= MAX_ALERTS) continue
    keep(...holds(undefined, condition, now, pace))
  }
  return { state: next, notices }
}
