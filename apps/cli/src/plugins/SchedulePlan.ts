/**
 * What a start or a deployment does with the schedules that packages contribute.
 *
 * ```
 *   contributed and   not stored                        set
 *                     stored, with a tag of a package   set when it differs; its pause, its times and its history stay
 *                     stored, without one               kept: a user has set it
 *   contributed, its only time has passed             not set
 *   stored with a tag of a package, no longer contributed   kept and listed
 * ```
 *
 * The tag `plugin:PACKAGE` of their jobs distinguishes schedules of packages from others. Nothing is removed: a schedule has a history, and a
 * package may be missing by mistake.
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { Schedule, ScheduleName, ScheduleSpec } from "@stint/contract/Schedule"
import { isDeepStrictEqual } from "node:util"

const PREFIX = "plugin:"

/** The longest tag, in characters. */
const MAX_TAG = 64

/** The tag of jobs from a package's schedules. */
export const tagOf = (name: string): string => `${PREFIX}${name}`.slice(0, MAX_TAG)

/** `spec`: with the tag of the package. */
export interface ScheduleContribution {
  readonly package: string
  readonly endpoint: EndpointId
  readonly name: ScheduleName
  readonly spec: ScheduleSpec
}

/** What would be done. */
export interface SchedulePlan {
  readonly set: ReadonlyArray<ScheduleContribution & { readonly isNew: boolean }>
  /** Not set, because their only time has passed: the platform rejects them, and they would never fire. */
  readonly past: ReadonlyArray<ScheduleContribution>
  /** Contributed, but a user has set the schedule. */
  readonly own: ReadonlyArray<Schedule>
  /** No longer contributed. */
  readonly undeclared: ReadonlyArray<Schedule>
}

const isOfPackage = ({ tags = [] }: ScheduleSpec): boolean => tags.some((tag) => tag.startsWith(PREFIX))

const keyOf = ({ endpoint, name }: Pick<Schedule, "endpoint" | "name">): string => `${endpoint}/${name}`

/** Compares. `now`: milliseconds since 1970. */
export const make = (
  stored: ReadonlyArray<Schedule>,
  declared: ReadonlyArray<ScheduleContribution>,
  now: number
): SchedulePlan => {
  const byKey = new Map(stored.map((schedule) => [keyOf(schedule), schedule]))
  const named = new Set(declared.map(keyOf))
  const pairs = declared.map((one) => ({ one, found: byKey.get(keyOf(one)) }))
  const differing = pairs.filter(({ found, one }) =>
    found === undefined || (isOfPackage(found.spec) && !isDeepStrictEqual(found.spec, one.spec))
  )
  // A schedule with the same time may change its other settings, even after that time.
  const isPast = ({ found, one: { spec: { at } } }: (typeof pairs)[number]) =>
    at !== undefined && at <= now && at !== found?.spec.at
  return {
    set: differing.filter((pair) => !isPast(pair)).map(({ found, one }) => ({ ...one, isNew: found === undefined })),
    past: differing.filter(isPast).map(({ one }) => one),
    own: pairs.flatMap(({ found }) => found === undefined || isOfPackage(found.spec) ? [] : [found]),
    undeclared: stored.filter((schedule) => isOfPackage(schedule.spec) && !named.has(keyOf(schedule)))
  }
}

/** One line for each schedule that is not set or not removed. */
export const keptLines = ({ own, past, undeclared }: SchedulePlan): ReadonlyArray<string> => [
  ...past.map(({ endpoint, name, package: from }) =>
    `The schedule "${name}" of ${endpoint}, from the package ${from}, is not set: its time has passed.`
  ),
  ...own.map(({ endpoint, name, updatedBy }) =>
    `The schedule "${name}" of ${endpoint} is kept as ${updatedBy} has set it. To use the package's version: stint schedules remove ${endpoint} ${name}`
  ),
  ...undeclared.map(({ endpoint, name }) =>
    `No package contributes the schedule "${name}" of ${endpoint} any longer. It keeps firing. To remove it: stint schedules remove ${endpoint} ${name}`
  )
]
