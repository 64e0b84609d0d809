/**
 * Recurring times: cron expressions in time zones, and the windows between them.
 */
export * as CronTimes from "./CronTimes.ts"
export * as TimeWindows from "./TimeWindows.ts"
