/**
 * The control API of schedules.
 */
import { Api } from "@stint/contract/Api"
import { CurrentOperator } from "@stint/contract/Authorization"
import { EndpointId } from "@stint/contract/Ids"
import { InvalidRequest, problemMembers, ScheduleNotFound, type Unavailable } from "@stint/contract/Problem"
import { Schedule, ScheduleName, ScheduleSpec } from "@stint/contract/Schedule"
import { type ScheduleMissing, Schedules } from "@stint/queue/Schedules"
import type { StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import * as Schema from "effect/Schema"
import { Limits } from "../http/Limits.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { endpointFinder, mapStoreErrors, mapSubmitErrors, unavailable } from "../http/QueueProblems.ts"
import { decoder, invalidValues, parseJson, readText } from "../http/RequestBody.ts"
import { callerLimitIssues, LIMIT_HINT } from "../jobs/CallerLimits.ts"

const HINT = "A schedule is a JSON object like {\"cron\": \"0 3 * * *\", \"timeZone\": \"Europe/Berlin\", \"input\": {}}."

const decodeSpec = decoder(ScheduleSpec, HINT, { unknown: "error" })
const isEndpointId = Schema.is(EndpointId)
const isName = Schema.is(ScheduleName)
const encode = Schema.encodeSync(Schedule)

const missing = ({ endpoint, name }: Pick<ScheduleMissing, "endpoint" | "name">) =>
  new ScheduleNotFound(problemMembers(
    `The endpoint "${excerpt(endpoint)}" has no schedule "${excerpt(name)}".`,
    "List schedules with: stint schedules list"
  ))

const mapErrors = <A, R>(
  effect: Effect.Effect<A, StoreError | ScheduleMissing, R>
): Effect.Effect<A, Unavailable | ScheduleNotFound, R> =>
  Effect.catchTags(effect, { StoreError: unavailable, ScheduleMissing: (error) => Effect.fail(missing(error)) })

export const layer = HttpApiBuilder.group(
  Api,
  "schedules",
  Effect.fnUntraced(function*(handlers) {
    const schedules = yield* Schedules
    const limits = yield* Limits
    const findEndpoint = yield* endpointFinder

    return handlers
      .handle("listSchedules", ({ query: { endpoint } }) =>
        endpoint === undefined || isEndpointId(endpoint)
          ? Effect.map(mapStoreErrors(schedules.list(endpoint)), (all) => ({ schedules: all }))
          : Effect.succeed({ schedules: [] }))
      .handle("getSchedule", ({ params }) => mapErrors(schedules.get(params.endpoint, params.schedule)))
      .handleRaw(
        "putSchedule",
        Effect.fnUntraced(function*({ params, request }) {
          const { name: by } = yield* CurrentOperator
          const name = params.schedule
          if (!isName(name)) {
            return yield* new InvalidRequest(problemMembers(
              `"${excerpt(name)}" is not a valid name for a schedule.`,
              "Use 1 to 50 letters, digits, - _ or ., starting with a letter or a digit."
            ))
          }
          const text = yield* readText(request, limits.controlBytes, "Put large inputs in an object store and pass the URL.")
          const spec = yield* decodeSpec(yield* parseJson(text, HINT))
          const endpoint = yield* findEndpoint(params.endpoint, true)
          const refused = callerLimitIssues(endpoint, spec)
          if (refused.length > 0) return yield* invalidValues(refused, LIMIT_HINT)
          const stored = yield* mapStoreErrors(
            Effect.catchTag(schedules.get(endpoint.id, name), "ScheduleMissing", () => Effect.undefined)
          )
          if (spec.at !== undefined && spec.at !== stored?.spec.at && spec.at <= (yield* Clock.currentTimeMillis)) {
            const message = `${new Date(spec.at).toISOString()} has passed`
            return yield* invalidValues([{ path: ["at"], message }], "Pass a later time, or submit the job now: stint run.")
          }
          const { isNew, schedule } = yield* mapStoreErrors(schedules.put({ endpoint: endpoint.id, name }, spec, by))
          return HttpServerResponse.jsonUnsafe(encode(schedule), { status: isNew ? 201 : 200 })
        })
      )
      .handle("deleteSchedule", ({ params }) => mapErrors(schedules.remove(params.endpoint, params.schedule)))
      .handle(
        "pauseSchedule",
        Effect.fnUntraced(function*({ params }) {
          const { name: by } = yield* CurrentOperator
          return yield* mapErrors(schedules.pause(params.endpoint, params.schedule, by))
        })
      )
      .handle(
        "resumeSchedule",
        Effect.fnUntraced(function*({ params }) {
          const { name: by } = yield* CurrentOperator
          return yield* mapErrors(schedules.resume(params.endpoint, params.schedule, by))
        })
      )
      .handle(
        "runSchedule",
        Effect.fnUntraced(function*({ params }) {
          const endpoint = yield* findEndpoint(params.endpoint, true)
          const id = yield* schedules.runNow(endpoint, params.schedule).pipe(
            Effect.catchTag("ScheduleMissing", (error) => Effect.fail(missing(error))),
            Effect.catchTag(
              ["StoreError", "EndpointGone", "QuotaExceeded", "BudgetReached"],
              (error) => mapSubmitErrors(Effect.fail(error))
            ),
            // Only requests with their own idempotency key can conflict.
            Effect.catchTag("Conflict", Effect.die)
          )
          return { id, status: "IN_QUEUE" as const }
        })
      )
  })
)
