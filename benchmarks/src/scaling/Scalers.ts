/**
 * The compared scalers. Stint's is the production function; the others are models based on their documentation.
 */
import { ScalingPolicy } from "@stint/autoscaler"
import type { Scaler } from "@stint/autoscaler/Simulation"

/** The production function, unchanged. */
export const stint: Scaler = ScalingPolicy.decide

/** Workers that have reached the idle timeout, and the time at which the next worker will reach it. */
const idleTooLong = ({ limits, now, workers }: ScalingPolicy.Observation) => {
  const idle = workers.filter(({ state }) => state === "idle")
  const drain = idle.filter(({ idleSince }) => now - (idleSince ?? now) >= limits.idleTimeoutMs).map(({ id }) => id)
  return drain.slice(0, Math.max(0, workers.length - limits.min))
}

/** The interval at which the models of RunPod's scalers decide. Milliseconds. */
const CHECK_MILLIS = 1_000

/** The time of the next check. None while nothing could change. */
const nextCheck = ({ depth, now, workers }: ScalingPolicy.Observation, interval: number): number | null =>
  workers.length === 0 && depth.waiting === 0 ? null : Math.floor(now / interval) * interval + interval

/**
 * RunPod's formulas as documented, decided every second: QUEUE_DELAY adds a worker while a job has been waiting longer than the value, and
 * REQUEST_COUNT runs `ceil((waiting + running) / value)` workers.
 */
export const formulas: Scaler = (observation) => {
  const { depth, limits, now, scaler, workers } = observation
  const wanted = scaler.type === "REQUEST_COUNT"
    ? Math.ceil((depth.waiting + depth.running) / scaler.value)
    : workers.length + (depth.oldestQueuedAt !== null && now - depth.oldestQueuedAt > scaler.value * 1_000 ? 1 : 0)
  const isCheck = now % CHECK_MILLIS === 0
  return {
    start: isCheck ? Math.max(0, Math.min(wanted, limits.max) - workers.length) : 0,
    drain: depth.waiting === 0 ? idleTooLong(observation) : [],
    wakeAt: nextCheck(observation, CHECK_MILLIS)
  }
}

const TICK = 2_000
const STABLE_WINDOW = 60_000
const PANIC_WINDOW = 6_000
const PANIC_THRESHOLD = 2
const SCALE_TO_ZERO_GRACE = 30_000
/** Each worker runs one job at a time, and the autoscaler aims to use 70 % of that capacity. */
const TARGET = 0.7
const MAX_SCALE_DOWN_RATE = 2

/**
 * Knative's pod autoscaler with its default settings: decides by the average number of waiting and running jobs over 60 s, or over 6 s while
 * it "panics" because there are twice as many jobs as the workers can run. When there are no workers, the first job starts one at once.
 */
export const knative = (): Scaler => {
  /** The number of jobs since the time, until the next entry. */
  const samples: Array<{ readonly at: number; readonly jobs: number }> = []
  let panicUntil = -Infinity
  let panicWorkers = 0
  let zeroSince: number | null = null

  const average = (now: number, window: number): number => {
    let sum = 0
    let until = now
    for (let index = samples.length - 1; index >= 0; index--) {
      const sample = samples[index]
      if (sample === undefined) break
      const from = Math.max(sample.at, now - window)
      sum += sample.jobs * (until - from)
      until = from
      if (sample.at <= now - window) break
    }
    return sum / Math.min(window, Math.max(1, now - (samples[0]?.at ?? now)))
  }

  return (observation) => {
    const { depth, limits, now, workers } = observation
    const jobs = depth.waiting + depth.running
    samples.push({ at: now, jobs })
    while ((samples[1]?.at ?? Infinity) < now - STABLE_WINDOW) samples.shift()
    const wakeAt = workers.length === 0 && depth.waiting === 0 ? null : Math.floor(now / TICK) * TICK + TICK
    // The activator reports the first request immediately.
    if (workers.length === 0) {
      return { start: depth.waiting > 0 ? 1 : 0, drain: [], wakeAt: wakeAt ?? (depth.waiting > 0 ? now + TICK : null) }
    }
    if (now % TICK !== 0) return { start: 0, drain: [], wakeAt }

    const ready = Math.max(1, workers.filter(({ state }) => state !== "starting").length)
    const stable = Math.max(Math.ceil(average(now, STABLE_WINDOW) / TARGET), Math.floor(ready / MAX_SCALE_DOWN_RATE))
    const panic = Math.ceil(average(now, PANIC_WINDOW) / TARGET)
    if (panic / ready >= PANIC_THRESHOLD) panicUntil = now + STABLE_WINDOW
    const panics = now < panicUntil
    panicWorkers = panics ? Math.max(panicWorkers, panic) : 0
    let wanted = Math.min(limits.max, Math.max(limits.min, panics ? Math.max(panicWorkers, stable) : stable))
    // The last worker stops only after the whole stable window and the grace period have passed without jobs.
    if (average(now, STABLE_WINDOW) > 0 || jobs > 0) zeroSince = null
    else zeroSince ??= now
    wanted = zeroSince !== null && now - zeroSince >= SCALE_TO_ZERO_GRACE ? limits.min : Math.max(1, wanted)
    const idle = workers.filter(({ state }) => state === "idle").map(({ id }) => id)
    return {
      start: Math.max(0, wanted - workers.length),
      drain: idle.slice(0, Math.max(0, workers.length - wanted)),
      wakeAt
    }
  }
}
