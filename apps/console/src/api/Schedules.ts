/**
 * The operations on schedules. All of them need the scope `deploy`.
 */
import type { Schedule, ScheduleSpec } from "@stint/contract/Schedule"
import { call, part, read } from "./Api.ts"

const pathOf = (endpoint: string, name: string) => `/api/v1/endpoints/${part(endpoint)}/schedules/${part(name)}`

/** The schedules of all endpoints. */
export const schedules = (signal?: AbortSignal) =>
  read<{ readonly schedules: ReadonlyArray<Schedule> }>("/api/v1/schedules", signal)

/** A schedule. */
export const schedule = (endpoint: string, name: string, signal?: AbortSignal) => read<Schedule>(pathOf(endpoint, name), signal)

/** Creates a schedule, or replaces its settings. */
export const putSchedule = (endpoint: string, name: string, spec: ScheduleSpec) =>
  call("PUT", pathOf(endpoint, name), { json: spec })

/** Removes a schedule. */
export const deleteSchedule = (endpoint: string, name: string) => call("DELETE", pathOf(endpoint, name))

/** Pauses or resumes a schedule, or submits its job now. */
export const changeSchedule = (endpoint: string, name: string, change: "pause" | "resume" | "run-now") =>
  call("POST", `${pathOf(endpoint, name)}/${change}`)
