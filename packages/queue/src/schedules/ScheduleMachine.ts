/**
 * The decisions of a schedule, as pure functions of its record and the time.
 *
 * ```
 *   created -> nextAt --due--> waiting --decided, one after the other--> last, job
 *                |                ^
 *                |   late: catch-up policy keeps none, the last or some of them
 *                `----------------'
 * ```
 *
 * A time is due when the time plus its jitter has passed. Times that are due move from `nextAt` to `waiting` at once, so that a later change of the
 * clock cannot make them due again. Each decision is one new version of the record.
 */
import type { JobId } from "@stint/contract/Ids"
import type { Schedule, ScheduleFiring, ScheduleSpec } from "@stint/contract/Schedule"
import * as CronTimes from "@stint/schedule/CronTimes"
import { type ScheduleKey, type ScheduleRecord, SET_BACK_MILLIS } from "@stint/store/ScheduleStore"
import { createHash } from "node:crypto"

/** A firing that is later than this was missed, and the catch-up policy applies. Milliseconds. */
const ON_TIME_MILLIS = 60_000

/** The maximum number of firings that wait for the end of earlier ones. */
const MAX_WAITING = 100

/** The maximum number of earlier jobs that a schedule follows. */
const MAX_EARLIER_JOBS = 100

/** The number of upcoming firings in a schedule's description. */
const SHOWN = 5

const timesOf = ({ at, cron, timeZone }: ScheduleSpec): CronTimes.CronTimes =>
  cron !== undefined ? CronTimes.make(cron, timeZone) : {
    next: (after) => at !== undefined && at > after ? at : undefined,
    latest: (time) => at !== undefined && at <= time ? at : undefined
  }

/**
 * When a time is due. Every server computes the same delay. It is shorter than the interval to the next time, so that times become due in order.
 * Otherwise a later time that is due first would drop this one.
 */
const dueAtOf = (
  { id, spec: { jitterMs } }: Pick<ScheduleRecord, "id" | "spec">,
  times: CronTimes.CronTimes,
  time: number
): number => {
  if (jitterMs === 0) return time
  const longest = Math.min(jitterMs, (times.next(time) ?? Infinity) - time)
  return time + createHash("sha256").update(`${id} ${time}`).digest().readUInt32BE() % longest
}

/** The record with `dueAt` computed. */
const settled = (record: ScheduleRecord): ScheduleRecord => {
  const { nextAt, paused, waiting } = record
  const dueAt = paused ? null : waiting[0] ?? (nextAt === null ? null : dueAtOf(record, timesOf(record.spec), nextAt))
  return { ...record, dueAt }
}

/** The next version of a record. */
export const nextVersion = (record: ScheduleRecord): ScheduleRecord => ({ ...record, version: record.version + 1 })

/** Computes the next time from the present. Times that are due and undecided are dropped. */
const restarted = (record: ScheduleRecord, now: number): ScheduleRecord =>
  settled({ ...record, waiting: [], nextAt: timesOf(record.spec).next(now) ?? null, checkedAt: now })

/** Who changes a schedule, and when. */
interface Change {
  readonly by: string
  readonly now: number
}

/** A new schedule. It fires at times after its creation only. */
export const created = (key: ScheduleKey & { readonly id: string }, spec: ScheduleSpec, { by, now }: Change): ScheduleRecord =>
  restarted({
    ...key,
    version: 1,
    spec,
    paused: false,
    createdAt: now,
    updatedAt: now,
    updatedBy: by,
    nextAt: null,
    checkedAt: now,
    waiting: [],
    dueAt: null,
    last: null,
    job: null
  }, now)

const isSameTime = (a: ScheduleSpec, b: ScheduleSpec): boolean => a.cron === b.cron && a.timeZone === b.timeZone && a.at === b.at

/** A schedule with other settings. If its times are the same, it continues where it was: a time that has passed does not become due again. */
export const updated = (record: ScheduleRecord, spec: ScheduleSpec, { by, now }: Change): ScheduleRecord => {
  const after = nextVersion({ ...record, spec, updatedAt: now, updatedBy: by })
  return isSameTime(record.spec, spec) ? settled(after) : restarted(after, now)
}

/** Times that are due are dropped. */
export const paused = (record: ScheduleRecord, { by, now }: Change): ScheduleRecord =>
  settled({ ...nextVersion(record), paused: true, waiting: [], updatedAt: now, updatedBy: by })

/** Fires at times after the present only. */
export const resumed = (record: ScheduleRecord, { by, now }: Change): ScheduleRecord =>
  restarted({ ...nextVersion(record), paused: false, updatedAt: now, updatedBy: by }, now)

/** The latest time that is due. */
const latestDue = (record: ScheduleRecord, nextAt: number, times: CronTimes.CronTimes, now: number): number | undefined => {
  let time = times.latest(now)
  while (time !== undefined && time >= nextAt && dueAtOf(record, times, time) > now) time = times.latest(time - 1)
  return time !== undefined && time >= nextAt ? time : undefined
}

/** The due times that were not missed, and the missed ones that the catch-up policy keeps, oldest first. */
const kept = (
  record: ScheduleRecord,
  range: { readonly nextAt: number; readonly latest: number },
  times: CronTimes.CronTimes,
  now: number
): ReadonlyArray<number> => {
  const { catchUp, catchUpLimit } = record.spec
  const isOnTime = (time: number) => now - dueAtOf(record, times, time) < ON_TIME_MILLIS
  const limit = catchUp === "all" ? catchUpLimit : catchUp === "last" ? 1 : 0
  const found: Array<number> = []
  let time: number | undefined = range.latest
  while (time !== undefined && time >= range.nextAt && (found.length < limit || isOnTime(time))) {
    found.unshift(time)
    time = times.latest(time - 1)
  }
  return found
}

/** Moves the times that are due to `waiting`. Returns the same record when nothing is due. */
export const accepted = (record: ScheduleRecord, now: number): ScheduleRecord => {
  if (record.paused || record.nextAt === null) return record
  const times = timesOf(record.spec)
  if (record.checkedAt > now + SET_BACK_MILLIS) {
    const nextAt = times.next(now) ?? null
    return settled({ ...record, nextAt, checkedAt: now })
  }
  const latest = latestDue(record, record.nextAt, times, now)
  if (latest === undefined) return record
  const made = kept(record, { nextAt: record.nextAt, latest }, times, now)
  const all = [...record.waiting, ...made]
  const decided = { scheduledFor: latest, at: now, trigger: "time" } as const
  const last: ScheduleFiring | null = made.length === 0
    ? { ...decided, outcome: "missed", reason: "The platform did not run, or could not store jobs, when it was due." }
    : all.length > MAX_WAITING
    ? { ...decided, outcome: "skipped", reason: `${MAX_WAITING} earlier firings wait for the end of their previous job.` }
    : record.last
  return settled({
    ...record,
    nextAt: times.next(latest) ?? null,
    checkedAt: now,
    waiting: all.slice(0, MAX_WAITING),
    last
  })
}

/**
 * The schedule after a firing was decided. A manual firing does not change the times of the schedule. `unended`: the earlier jobs that are still
 * running.
 */
export const decided = (record: ScheduleRecord, firing: ScheduleFiring, unended: ReadonlyArray<JobId> = []): ScheduleRecord =>
  settled(nextVersion({
    ...record,
    waiting: firing.trigger === "manual" ? record.waiting : record.waiting.slice(1),
    last: firing,
    ...(firing.job === undefined ? {} : { job: firing.job, earlierJobs: unended.slice(-MAX_EARLIER_JOBS) })
  }))

/** `nextAt` and the times after it. */
const nextTimes = ({ nextAt, paused, spec }: ScheduleRecord): ReadonlyArray<number> => {
  const times = timesOf(spec)
  const found: Array<number> = []
  let time: number | undefined = paused ? undefined : nextAt ?? undefined
  while (time !== undefined && found.length < SHOWN) {
    found.push(time)
    time = times.next(time)
  }
  return found
}

/** The description of a schedule. */
export const toSchedule = (record: ScheduleRecord): Schedule => {
  const { createdAt, endpoint, last, name, paused, spec, updatedAt, updatedBy, waiting } = record
  return { endpoint, name, spec, paused, createdAt, updatedAt, updatedBy, next: nextTimes(record), waiting, last }
}
