/**
 * Milliseconds from a heartbeat to the next one (docs/spec/worker-protocol.md#heartbeat).
 *
 * Heartbeats are sent when the wall clock is a multiple of 250 ms, so a platform receives those of many workers together. A heartbeat that arrives
 * alone finds cold caches: it costs an idle platform about 300 µs of CPU time, and one of many costs 50 (docs/decisions/0061-an-idle-platform.md). Four
 * times a second, and not once, so that the heartbeats of 10,000 workers do not arrive in one burst.
 *
 * An interval is up to 125 ms shorter or longer; after the first one, multiples of 250 ms are exact. Intervals below a second are not changed. The
 * heartbeat thread evaluates the source text of this function, so it must be self-contained.
 *
 * @param now The wall clock, in milliseconds.
 * @param interval Milliseconds between heartbeats.
 */
export const untilNextHeartbeat = (now: number, interval: number): number => {
  const grid = 250
  if (interval < 1_000) return interval
  return Math.round((now + interval) / grid) * grid - now
}
