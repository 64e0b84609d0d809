/**
 * Computes what usage costs. Pure. Costs are computed on read, so that a changed price also applies to past usage.
 */
import type { UsageKey, UsageRecord } from "@stint/store/UsageStore"
import * as Schema from "effect/Schema"

const Price = Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 }))

const perSecond = {
  /** A second in which a handler ran. For workers that the platform does not start, no other time is known. */
  execution: Schema.optionalKey(Price),
  /** A second in which a worker was ready, even while it was idle. */
  worker: Schema.optionalKey(Price),
  /** A second of CPU time. */
  cpu: Schema.optionalKey(Price),
  /** A second of one GPU, while its worker was ready. */
  gpu: Schema.optionalKey(Price)
}

/** Prices per second. A missing platform price is 0; for a missing endpoint price, the platform's price applies. */
export const PricesPerSecond = Schema.Struct(perSecond)
export type PricesPerSecond = typeof PricesPerSecond.Type

/** The prices of a platform. */
export interface Prices {
  /** A label, such as `EUR` or `credits`. */
  readonly currency: string
  readonly perSecond: PricesPerSecond
  readonly endpoints: Readonly<Record<string, PricesPerSecond>>
}

/** The sums that are billed, in milliseconds. {@link shared} produces fractions. */
export type BilledTimes = Pick<UsageRecord, "executionMs" | "workerMs" | "cpuMs" | "gpuMs">

/** What an endpoint's usage costs. */
export const costOf = ({ endpoints, perSecond }: Prices, endpoint: string, times: BilledTimes): number => {
  const own = Object.hasOwn(endpoints, endpoint) ? endpoints[endpoint] : undefined
  const price = (name: keyof PricesPerSecond) => own?.[name] ?? perSecond[name] ?? 0
  return (times.executionMs * price("execution") + times.workerMs * price("worker") + times.cpuMs * price("cpu") +
    times.gpuMs * price("gpu")) / 1_000
}

/**
 * The records of one hour, endpoint and release, with the worker time divided between the keys in proportion to the execution time of their jobs. The
 * worker time of an hour in which no attempt of the release ran has no key.
 */
const sharedGroup = (group: ReadonlyArray<UsageRecord>): ReadonlyArray<UsageRecord> => {
  const sum = (name: keyof BilledTimes) => group.reduce((total, record) => total + record[name], 0)
  const executionMs = sum("executionMs")
  if (executionMs === 0) return group
  const [workerMs, cpuMs, gpuMs] = [sum("workerMs"), sum("cpuMs"), sum("gpuMs")]
  return group.map((record) => {
    const share = record.executionMs / executionMs
    return { ...record, workerMs: workerMs * share, cpuMs: cpuMs * share, gpuMs: gpuMs * share }
  })
}

const isSameGroup = (a: UsageKey, b: UsageKey): boolean =>
  a.hour === b.hour && a.endpoint === b.endpoint && a.release === b.release

/**
 * Calls `use` with each group of the records, which are sorted as `UsageStore.list` returns them, after dividing its worker time between the keys.
 */
export const makeSharing = (use: (record: UsageRecord) => void) => {
  let group: Array<UsageRecord> = []
  const end = () => {
    sharedGroup(group).forEach(use)
    group = []
  }
  return {
    next: (record: UsageRecord) => {
      if (group[0] !== undefined && !isSameGroup(group[0], record)) end()
      group.push(record)
    },
    end
  }
}
