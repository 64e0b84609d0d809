/**
 * Responses when no operation matches, or when an operation fails in an undeclared way. They are JSON problems of the same shape, except
 * under the OpenAI route, which uses OpenAI's error shape:
 *
 * ```
 *   no route matches       the path exists with other methods   405, with `allow`
 *                          the path is badly encoded            400
 *                          otherwise                            404
 *   an invalid query       400 with the path of each invalid value
 *   no Host header         400
 *   a defect               500, logged with its cause; the server continues
 * ```
 */
import { Api } from "@stint/contract/Api"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServerError, HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApi, HttpApiError } from "effect/http-api"
import { IncomingMessage } from "node:http"
import * as OpenAiErrorResponse from "../openai/OpenAiErrorResponse.ts"
import { DOCS_PATH, HOME_PATH, OPENAPI_PATH } from "../pages/Paths.ts"
import { NOSNIFF } from "./JsonResponse.ts"
import { excerpt, PROBLEM_CONTENT_TYPE, problemJson } from "./ProblemJson.ts"
import { issuesOf } from "./RequestBody.ts"

const respond = (url: string, problem: Parameters<typeof problemJson>[0], headers: Record<string, string> = {}) =>
  OpenAiErrorResponse.isOpenAiUrl(url)
    ? HttpServerResponse.setHeaders(OpenAiErrorResponse.response(OpenAiErrorResponse.ofProblem(problem)), headers)
    : HttpServerResponse.text(problemJson(problem), { status: problem.status, contentType: PROBLEM_CONTENT_TYPE, headers })

/** All paths of the API with their methods, in declaration order. */
const routes: ReadonlyArray<{ readonly path: RegExp; readonly methods: ReadonlyArray<string> }> = (() => {
  const methods = new Map<string, Array<string>>([HOME_PATH, DOCS_PATH, OPENAPI_PATH].map((path) => [path, ["GET"]]))
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      // The names of path parameters do not matter here.
      const pattern = endpoint.path.replaceAll(/:\w+/g, "[^/]+")
      methods.set(pattern, [...(methods.get(pattern) ?? []), endpoint.method])
    }
  })
  return Array.from(
    methods,
    ([pattern, methods]) => ({ path: new RegExp(`^${pattern.replaceAll(".", "\\.").replace("*", ".+")}$`), methods })
  )
})()

/** The path of a URL, normalized in the same way as in the router: without doubled slashes and without a trailing slash. */
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
      hint: "Encode each id with encodeURIComponent (in Python urllib.parse.quote). A literal percent sign is %25."
    })
  }
  const methods = routes.find((route) => route.path.test(path))?.methods
  if (methods !== undefined) {
    const allow = methods.join(", ")
    return respond(url, {
      status: 405,
      title: "Method not allowed",
      type: "method-not-allowed",
      error: `${excerpt(path)} does not support ${method}.`,
      hint: `Use ${allow}.`
    }, { allow })
  }
  return respond(url, {
    status: 404,
    title: "Not found",
    type: "route-not-found",
    error: `There is no operation ${method} ${excerpt(path)}.`,
    hint:
      "Callers use /v2/{endpoint}/run, runsync, status/{id}, stream/{id}, events/{id}, requests, cancel/{id}, retry/{id}, purge-queue, " +
      `health and openai/v1/{route}; operators use /api/v1/endpoints and /api/v1/keys. See ${DOCS_PATH} and ${OPENAPI_PATH} for all operations.`
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
      hint: `Correct the query, the part of the URL after "?". Its parameters are described at ${OPENAPI_PATH}.`,
      errors
    }))
  }
  return Effect.as(
    Effect.logError("A request failed because of a defect in the platform.", Cause.die(defect)),
    respond(url, {
      status: 500,
      title: "Internal server error",
      type: "internal",
      error: "The request failed because of a defect in the platform.",
      hint: "Send the request again. If it fails again, report it: the platform's log contains the cause."
    })
  )
}

const isRouteNotFound = (error: unknown): boolean =>
  HttpServerError.isHttpServerError(error) && error.reason._tag === "RouteNotFound"

/** RFC 9112 requires a Host header in HTTP/1.1, and Node is configured not to check it (NodeServer.ts). */
const lacksHost = ({ headers, source }: HttpServerRequest.HttpServerRequest): boolean =>
  headers["host"] === undefined && source instanceof IncomingMessage && source.httpVersion === "1.1"

const hostMissing = ({ url }: HttpServerRequest.HttpServerRequest) =>
  respond(url, {
    status: 400,
    title: "Bad request",
    type: "bad-request",
    error: "The request has no Host header, which HTTP/1.1 requires.",
    hint: "Send the platform's address in the header Host. HTTP libraries do so by themselves."
  })

const withNosniff = (response: HttpServerResponse.HttpServerResponse): HttpServerResponse.HttpServerResponse =>
  response.headers["x-content-type-options"] === undefined ? HttpServerResponse.setHeaders(response, NOSNIFF) : response

/** Responds to requests that no operation has responded to, and adds the headers of every response. */
export const layer = HttpRouter.middleware(
  (operation) => {
    const answered = operation.pipe(
      Effect.catchIf(isRouteNotFound, () => Effect.map(HttpServerRequest.HttpServerRequest, routeNotFound)),
      Effect.catchDefect((defect) => Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ url }) => undeclared(url, defect)))
    )
    return Effect.withFiber((fiber) => {
      const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
      return Effect.map(lacksHost(request) ? Effect.succeed(hostMissing(request)) : answered, withNosniff)
    })
  },
  { global: true }
)
