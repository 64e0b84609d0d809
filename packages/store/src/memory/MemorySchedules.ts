/**
 * Schedules in memory: part of the memory store, which changes a schedule in the same step as it inserts the job of a firing.
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { ScheduleName } from "@stint/contract/Schedule"
import * as Effect from "effect/Effect"
import { follows, isDue, type ScheduleRecord, ScheduleStore } from "../control/ScheduleStore.ts"

const keyOf = (endpoint: EndpointId, name: ScheduleName): string => `${endpoint} ${name}`

const compareNames = (a: ScheduleRecord, b: ScheduleRecord): number =>
  a.endpoint === b.endpoint ? (a.name < b.name ? -1 : 1) : a.endpoint < b.endpoint ? -1 : 1

const compareDue = (a: ScheduleRecord, b: ScheduleRecord): number => (a.dueAt ?? 0) - (b.dueAt ?? 0) || compareNames(a, b)

/** The store, and the steps of a firing. */
export const make = () => {
  const schedules = new Map<string, ScheduleRecord>()
  const isNext = (after: ScheduleRecord): boolean => follows(after, schedules.get(keyOf(after.endpoint, after.name)))
  const put = (after: ScheduleRecord) => void schedules.set(keyOf(after.endpoint, after.name), after)

  const service = ScheduleStore.of({
    get: (endpoint, name) => Effect.sync(() => schedules.get(keyOf(endpoint, name))),
    list: (endpoint) =>
      Effect.sync(() =>
        [...schedules.values()].filter((one) => endpoint === undefined || one.endpoint === endpoint).sort(compareNames)
      ),
    put: (after) =>
      Effect.sync(() => {
        if (!isNext(after)) return false
        put(after)
        return true
      }),
    remove: (endpoint, name) => Effect.sync(() => schedules.delete(keyOf(endpoint, name))),
    due: (now) =>
      Effect.sync(() =>
        [...schedules.values()].filter((one) => isDue(one, now)).sort(compareDue).map(({ endpoint, name }) => ({
          endpoint,
          name
        }))
      )
  })
  return { service, isNext, put }
}
