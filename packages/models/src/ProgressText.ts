/**
 * The progress of a download in words.
 */
import type { ModelState } from "./Models.ts"

const UNITS = ["kB", "MB", "GB", "TB"] as const

/** `5.0 GB`, `312 MB`, `950 B`. Decimal units, as hubs show sizes. */
export const bytesText = (bytes: number): string => {
  if (bytes < 1_000) return `${bytes} B`
  let value = bytes
  let unit: (typeof UNITS)[number] = "kB"
  for (const next of UNITS) {
    value /= 1_000
    unit = next
    if (value < 999.5) break
  }
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${unit}`
}

/** How long a download must run before its speed is used to estimate its end. Milliseconds. */
const MEASURED_FROM = 3_000

const remainingText = (seconds: number): string =>
  seconds < 90 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`

/** `1.2 GB of 5.0 GB, about 40 s left`. `now`: milliseconds since 1970. */
export const progressText = (
  { received, receivedBefore, since, total }: Extract<ModelState, { readonly _tag: "Downloading" }>,
  now: number
): string => {
  if (total === undefined) return "requesting the list of files from the hub"
  const speed = (received - receivedBefore) / (now - since)
  const left = now - since < MEASURED_FROM || speed <= 0
    ? ""
    : `, about ${remainingText((total - received) / speed / 1_000)} left`
  return `${bytesText(received)} of ${bytesText(total)}${left}`
}
