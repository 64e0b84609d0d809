/**
 * The operations on schedules, a part of the control API (docs/learning/schedules.md).
 *
 * ```
 *   /api/v1/schedules                                                GET     of all endpoints, or of one
 *   /api/v1/endpoints/{endpoint}/schedules/{schedule}                GET     with the next five firings
 *                                                                    PUT     create, or replace the settings
 *                                                                    DELETE
 *   /api/v1/endpoints/{endpoint}/schedules/{schedule}/pause          POST
 *   /api/v1/endpoints/{endpoint}/schedules/{schedule}/resume         POST
 *   /api/v1/endpoints/{endpoint}/schedules/{schedule}/run-now        POST    submit a job now
 * ```
 *
 * A schedule outlives its endpoint, so all operations except for `PUT` and `run` work without the endpoint.
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { ControlAuthorization } from "../Authorization.ts"
import { JobReceipt } from "../jobs/Job.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import {
  bodyErrors,
  BudgetReached,
  EndpointNotFound,
  InsufficientStorage,
  InvalidRequest,
  ScheduleNotFound,
  TooManyRequests,
  Unavailable
} from "../Problem.ts"
import { Schedule, ScheduleSpec } from "./Schedule.ts"

const schedule = {
  endpoint: Schema.String.annotate({ description: "The endpoint's id." }),
  schedule: Schema.String.annotate({ description: "The schedule's name." })
}

/** The operations on schedules. */
export class SchedulesApi extends HttpApiGroup.make("schedules")
  .add(
    HttpApiEndpoint.get("listSchedules", "/schedules", {
      query: { endpoint: Schema.optionalKey(Schema.String.annotate({ description: "Only schedules of this endpoint." })) },
      success: Schema.Struct({ schedules: Schema.Array(Schedule) }),
      error: Unavailable
    }).annotateMerge(operationDocs({
      summary: "List schedules",
      description: "Lists schedules by endpoint and name, each with its last firing and its next five times."
    })),
    HttpApiEndpoint.get("getSchedule", "/endpoints/:endpoint/schedules/:schedule", {
      params: schedule,
      success: Schedule,
      error: [ScheduleNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Get a schedule",
      description: "Returns a schedule with its last firing and its next five times."
    })),
    HttpApiEndpoint.put("putSchedule", "/endpoints/:endpoint/schedules/:schedule", {
      params: schedule,
      payload: ScheduleSpec,
      success: [Schedule, Schedule.pipe(HttpApiSchema.status(201))],
      error: [EndpointNotFound, InvalidRequest, ...bodyErrors, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Set a schedule",
      description:
        "Creates a schedule, or replaces its settings. If the times are unchanged, it continues where it was. A paused schedule stays paused. " +
        "Returns 201 for a new schedule, and 200 for a replaced one.",
      request: { cron: "0 3 * * *", timeZone: "Europe/Berlin", input: { report: "daily" }, overlap: "skip", catchUp: "last" }
    })),
    HttpApiEndpoint.delete("deleteSchedule", "/endpoints/:endpoint/schedules/:schedule", {
      params: schedule,
      success: HttpApiSchema.NoContent,
      error: [ScheduleNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Delete a schedule",
      description: "Deletes a schedule. Jobs that it has submitted continue."
    })),
    HttpApiEndpoint.post("pauseSchedule", "/endpoints/:endpoint/schedules/:schedule/pause", {
      params: schedule,
      success: Schedule,
      error: [ScheduleNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Pause a schedule",
      description: "A paused schedule does not fire. Firings that wait for the end of an earlier job are dropped."
    })),
    HttpApiEndpoint.post("resumeSchedule", "/endpoints/:endpoint/schedules/:schedule/resume", {
      params: schedule,
      success: Schedule,
      error: [ScheduleNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Resume a schedule",
      description: "The schedule fires at its next time. Times that passed while it was paused are dropped."
    })),
    HttpApiEndpoint.post("runSchedule", "/endpoints/:endpoint/schedules/:schedule/run-now", {
      params: schedule,
      success: JobReceipt,
      error: [
        EndpointNotFound,
        ScheduleNotFound,
        InvalidRequest,
        BudgetReached,
        TooManyRequests,
        InsufficientStorage,
        Unavailable
      ]
    }).annotateMerge(operationDocs({
      summary: "Run a schedule now",
      description:
        "Submits the schedule's job now, even if the schedule is paused or its previous job is running. The times of the schedule do not change."
    }))
  )
  .middleware(ControlAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Schedules", description: "Submit jobs at given times" }))
{}
