/**
 * What is answered where no operation is, or where one fails in a way that it does not declare. Always JSON, always the same shape, but for
 * OpenAI's own under its route:
 *
 * ```
 *   no route matches       the path exists with other methods   405, with `allow`
 *                          the path is badly encoded            400
 *                          otherwise                            404
 *   a query does not fit   400 with the path of each offending value
 *   a defect               500, logged with its cause; the server goes on
 * ```
 */
import { Api } from "@stint/contract/Api"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApi, HttpApiError } from "effect/http-api"
import { DOCS_PATH } from "../ApiPage.ts"
import * as OpenAiErrorResponse from "../openai/OpenAiErrorResponse.ts"
import { excerpt, PROBLEM_CONTENT_TYPE, problemJson } from "./ProblemJson.ts"
import { issuesOf } from "./RequestBody.ts"

/** Where the description of the API is, for everybody: it holds no data. */
export const OPENAPI_PATH = "/openapi.json"

const respond = (url: string, problem: Parameters<typeof problemJson>[0], headers: Record<string, string> = {}) =>
  OpenAiErrorResponse.isOpenAiUrl(url)
    ? HttpServerResponse.setHeaders(OpenAiErrorResponse.response(OpenAiErrorResponse.ofProblem(problem)), headers)
    : HttpServerResponse.text(problemJson(problem), { status: problem.status, contentType: PROBLEM_CONTENT_TYPE, headers })

/** Every path of the API and its methods, in the order of their declaration. */
const routes: ReadonlyArray<{ readonly path: RegExp; readonly methods: ReadonlyArray<string> }> = (() => {
  const methods = new Map<string, Array<string>>([[OPENAPI_PATH, ["GET"]], [DOCS_PATH, ["GET"]]])
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      // Which name a parameter has makes no difference here.
      const pattern = endpoint.path.replaceAll(/:\w+/g, "[^/]+")
      methods.set(pattern, [...(methods.get(pattern) ?? []), endpoint.method])
    }
  })
  return Array.from(
    methods,
    ([pattern, methods]) => ({ path: new RegExp(`^${pattern.replaceAll(".", "\\.").replace("*", ".+")}$`), methods })
  )
})()

/** The path of an address, in the form that the router compares: without doubled slashes and without one at the end. */
const pathOf = (url: string): string => {
  const end = url.search(/[?;#]/)
  const path = (end === -1 ? url : url.slice(0, end)).replaceAll(/\/{2,}/g, "/")
  return path.length > 1 && path.endsWith("/") ? path.slice(0, -1) : path
}

const isEncoded = (path: string): boolean => {
  try {
    decodeURI(path)
    return true
  } catch {
    return false
  }
}

const routeNotFound = ({ method, url }: HttpServerRequest.HttpServerRequest) => {
  const path = pathOf(url)
  if (!isEncoded(path)) {
    return respond(url, {
      status: 400,
      title: "Invalid request",
      type: "invalid-request",
      error: `The path "${excerpt(path)}" is not valid percent-encoding.`,
      hint: "Encode each id with encodeURIComponent (in Python urllib.parse.quote); a percent sign of its own is %25."
    })
  }
  const methods = routes.find((route) => route.path.test(path))?.methods
  if (methods !== undefined) {
    const allow = methods.join(", ")
    return respond(url, {
      status: 405,
      title: "Method not allowed",
      type: "method-not-allowed",
      error: `${method} is not for ${excerpt(path)}.`,
      hint: `Use ${allow}.`
    }, { allow })
  }
  return respond(url, {
    status: 404,
    title: "Not found",
    type: "route-not-found",
    error: `Nothing is at ${method} ${excerpt(path)}.`,
    hint:
      "Callers use /v2/{endpoint}/run, runsync, status/{id}, stream/{id}, events/{id}, requests, cancel/{id}, retry/{id}, purge-queue, " +
      `health and openai/v1/{route}; operators use /api/v1/endpoints and /api/v1/keys. All of it is described at ${DOCS_PATH} and ${OPENAPI_PATH}.`
  })
}

const undeclared = (url: string, defect: unknown) => {
  if (HttpApiError.HttpApiSchemaError.is(defect) && (defect.kind === "Query" || defect.kind === "Params")) {
    const { errors, message } = issuesOf(defect.cause.issue)
    return Effect.succeed(respond(url, {
      status: 400,
      title: "Invalid request",
      type: "invalid-request",
      error: message,
      hint: `The query is what follows the "?" of the address. What it may hold is described at ${OPENAPI_PATH}.`,
      errors
    }))
  }
  return Effect.as(
    Effect.logError("A request failed through a fault of the platform.", Cause.die(defect)),
    respond(url, {
      status: 500,
      title: "Internal server error",
      type: "internal",
      error: "The request failed through a fault of the platform.",
      hint: "Send it again. If it fails again, the platform's log says where; please report it."
    })
  )
}

const isRouteNotFound = (error: unknown): boolean =>
  HttpServerError.isHttpServerError(error) && error.reason._tag === "RouteNotFound"

/** Answers what nothing else answers. */
export const layer = HttpRouter.middleware(
  (operation) =>
    operation.pipe(
      Effect.catchIf(isRouteNotFound, () => Effect.map(HttpServerRequest.HttpServerRequest, routeNotFound)),
      Effect.catchDefect((defect) => Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ url }) => undeclared(url, defect)))
    ),
  { global: true }
)
