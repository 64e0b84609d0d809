/**
 * `stint health` counts the jobs and workers of one endpoint, or of all.
 */
import type { Health } from "@stint/contract/Health"
import { Argument, Command } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { call } from "../client/PlatformClient.ts"
import * as Output from "../output/Output.ts"
import { json } from "./SharedFlags.ts"

const HEADING = [
  "ENDPOINT",
  "QUEUED",
  "RUNNING",
  "COMPLETED",
  "FAILED",
  "RETRIED",
  "IDLE",
  "BUSY",
  "STARTING",
  "THROTTLED",
  "UNHEALTHY"
]

const rowOf = (endpoint: string, { jobs, workers }: Health): ReadonlyArray<string> => [
  endpoint,
  ...[
    jobs.inQueue,
    jobs.inProgress,
    jobs.completed,
    jobs.failed,
    jobs.retried,
    workers.idle,
    workers.running,
    workers.initializing,
    workers.throttled,
    workers.unhealthy
  ].map(String)
]

/** The jobs and workers of an endpoint. */
export type EndpointHealth = Health & { readonly endpoint: string }

const get = (endpoint: string) =>
  Effect.map(call((api) => api.jobs.health({ params: { endpoint } })), (health): EndpointHealth => ({ endpoint, ...health }))

const allOf = (names: ReadonlyArray<string>) => Effect.forEach(names, get, { concurrency: 8 })

/** The jobs and workers of every endpoint. */
export const healthOfAll = Effect.flatMap(
  call((api) => api.control.listEndpoints()),
  ({ endpoints }) => allOf(endpoints.map(({ id }) => id))
)

/** `stint health`. */
export const health = Command.make(
  "health",
  {
    endpoint: Argument.String("endpoint").pipe(
      Argument.withDescription("Name of the endpoint; default: every endpoint, which needs an admin key"),
      Argument.optional
    ),
    json
  },
  Effect.fnUntraced(function*({ endpoint, json }) {
    const found = yield* Option.isSome(endpoint) ? allOf([endpoint.value]) : healthOfAll
    yield* Output.print(json, found, (all) =>
      all.length === 0
        ? "No endpoints yet. Create one: stint endpoints create NAME --handler FILE"
        : Output.table([HEADING, ...all.map((one) => rowOf(one.endpoint, one))]))
  })
).pipe(Command.withDescription("Count the jobs and workers of an endpoint, or of every endpoint"))
