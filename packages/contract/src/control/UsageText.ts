/**
 * Times and costs as the command line and the console print them. Without Schema, because browsers load this module with the console.
 */

/** `93784.5` seconds: `26:03:04.5`. */
export const timeText = (seconds: number): string => {
  const tenths = Math.round(seconds * 10)
  const two = (number: number) => String(number).padStart(2, "0")
  const rest = `${two(Math.floor(tenths / 600) % 60)}:${two(Math.floor(tenths / 10) % 60)}.${tenths % 10}`
  return `${Math.floor(tenths / 36_000)}:${rest}`
}

/** `12.50`; below one, two significant digits, so that a small cost does not look like zero: `0.00042`. */
export const costText = (cost: number): string => cost >= 1 || cost === 0 ? cost.toFixed(2) : String(Number(cost.toPrecision(2)))
