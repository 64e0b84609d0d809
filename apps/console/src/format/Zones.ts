/**
 * Times in a time zone that the reader chose.
 */

/** The time zone of this browser. */
export const localZone = (): string => new Intl.DateTimeFormat().resolvedOptions().timeZone

/** Whether the browser knows a time zone. */
export const isZone = (zone: string): boolean => {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: zone }).resolvedOptions().timeZone !== ""
  } catch {
    return false
  }
}

/** All time zones that the browser knows, for suggestions. */
export const allZones = (): ReadonlyArray<
  string
> => ["UTC", ...Intl.supportedValuesOf("timeZone").filter((zone) => zone !== "UTC")]

/** `Tue 24 Nov 2026, 03:00 GMT+1`; with seconds when they are not zero. A zone that the browser does not know is shown as UTC. */
export const inZone = (time: number, zone: string): string => {
  const parts = new Map(
    new Intl.DateTimeFormat("en-GB", {
      weekday: "short",
      day: "numeric",
      month: "short",
      year: "numeric",
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      timeZoneName: "short",
      timeZone: isZone(zone) ? zone : "UTC"
    }).formatToParts(time).map(({ type, value }) => [type, value] as const)
  )
  const at = (type: Intl.DateTimeFormatPartTypes) => parts.get(type) ?? ""
  const seconds = at("second") === "00" ? "" : `:${at("second")}`
  return `${at("weekday")} ${at("day")} ${at("month")} ${at("year")}, ${at("hour")}:${at("minute")}${seconds} ${
    at("timeZoneName")
  }`
}
