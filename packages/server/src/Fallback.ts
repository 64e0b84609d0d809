/**
 * What is answered where no route is: 404 or 405 with the way out, and 500 for a fault of ours. Always JSON, always the same shape.
 */
import { explain, RouteNotFound } from "@stint/contract/Problem"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Layer from "effect/Layer"

/** The operations of `/v2/{endpoint}` that have one method only, and that method. */
const METHODS: Readonly<Record<string, "GET" | "POST">> = {
  run: "POST",
  runsync: "POST",
  cancel: "POST",
  retry: "POST",
  "purge-queue": "POST",
  health: "GET",
  "job-take": "GET",
  "job-take-batch": "GET",
  "job-stop": "GET",
  "job-done": "POST",
  "job-stream": "POST"
}

const problem = (status: number, title: string, type: string, error: string, hint: string, headers: Record<string, string> = {}) =>
  HttpServerResponse.text(
    JSON.stringify({ type: `/problems/${type}`, title, status, ...explain(error, hint) }),
    { status, contentType: "application/problem+json", headers }
  )

const notFound = Effect.gen(function*() {
  const request = yield* HttpServerRequest.HttpServerRequest
  const path = request.url.split("?")[0] ?? ""
  const [, version, endpoint = "", operation = ""] = path.split("/")
  const method = METHODS[operation]
  if (version === "v2" && method !== undefined && method !== request.method) {
    return problem(
      405,
      "Method not allowed",
      "method-not-allowed",
      `${request.method} is not for /v2/${endpoint}/${operation}.`,
      `Use ${method}.`,
      { allow: method }
    )
  }
  return yield* new RouteNotFound(explain(
    `Nothing is at ${request.method} ${path}.`,
    "Callers use /v2/{endpoint}/run, runsync, status/{id}, stream/{id}, cancel/{id}, retry/{id}, purge-queue and health; operators use /api/v1/endpoints."
  ))
}).pipe(Effect.catchTag("RouteNotFound", (error) => Effect.succeed(problem(404, error.title, "route-not-found", error.error, error.hint))))

const layerNotFound = HttpRouter.add("*", "/*", notFound)

/** A defect is logged with its cause and answered with 500; the server goes on. */
const layerDefects = HttpRouter.middleware(
  (respond) =>
    Effect.catchDefect(respond, (defect) =>
      Effect.as(
        Effect.logError("A request failed through a fault of the platform.", Cause.die(defect)),
        problem(
          500,
          "Internal server error",
          "internal",
          "The request failed through a fault of the platform.",
          "Send it again. If it fails again, the platform's log says where; please report it."
        )
      )),
  { global: true }
)

export const layer = Layer.mergeAll(layerNotFound, layerDefects)
