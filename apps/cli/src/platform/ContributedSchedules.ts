/**
 * Sets the schedules that packages contribute when the platform starts (`SchedulePlan.ts`).
 */
import type { Schedule } from "@stint/contract/Schedule"
import { Schedules } from "@stint/queue/Schedules"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { ScheduleContribution } from "../plugins/SchedulePlan.ts"
import * as SchedulePlan from "../plugins/SchedulePlan.ts"

/** What to do after a schedule has been set. */
type OnSet = (schedule: Schedule) => Effect.Effect<void>

/** Sets the schedules that are new or differ. Logs those that it does not change. */
const apply = Effect.fn("ContributedSchedules.apply")(function*(declared: ReadonlyArray<ScheduleContribution>, onSet: OnSet) {
  const schedules = yield* Schedules
  const plan = SchedulePlan.make(yield* schedules.list(), declared, yield* Clock.currentTimeMillis)
  for (const { endpoint, name, package: from, spec } of plan.set) {
    const { schedule } = yield* schedules.put({ endpoint, name }, spec, `package ${from}`)
    yield* onSet(schedule)
  }
  for (const line of SchedulePlan.keptLines(plan)) yield* Effect.logInfo(line)
})

/** {@link apply} as a layer. A platform that cannot store schedules starts without them. */
export const layer = (declared: ReadonlyArray<ScheduleContribution>, onSet: OnSet = () => Effect.void) =>
  Layer.effectDiscard(
    Effect.catch(apply(declared, onSet), ({ message }) =>
      declared.length === 0
        ? Effect.void
        : Effect.logWarning(`The schedules of packages are not set: ${message}`))
  )
