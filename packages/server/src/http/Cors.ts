/**
 * CORS: which web pages may call the platform. Applies only to the jobs API and the OpenAI route.
 *
 * ```
 *   a page of an allowed origin  --OPTIONS /v2/{endpoint}/run--> 204, with what it may send     before any key is checked
 *                                --POST /v2/{endpoint}/run-----> the response, readable by the page
 *   a page of another origin     --the same-------------------> the response, hidden from the page by the browser
 * ```
 *
 * The server reads no cookies, so a page can do nothing without a key of its own. Any request header is allowed, because OpenAI's clients
 * send a dozen. Operators and workers do not call from web pages: the control API and the worker API send no CORS headers.
 */
import { Api } from "@stint/contract/Api"
import { JobsAuthorization } from "@stint/contract/Authorization"
import { JOB_ID_HEADER } from "@stint/contract/JobsApi"
import { OpenAiAuthorization, REQUEST_ID_HEADER, SHOULD_RETRY_HEADER } from "@stint/contract/OpenAiApi"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpMiddleware, HttpRouter, HttpServerRequest } from "effect/http"
import { HttpApi } from "effect/http-api"

/** `*` allows every page. Otherwise a list of origins as browsers send them: `https://app.example.com`, without a path. */
export type AllowedOrigins = "*" | ReadonlyArray<string>

/** The origins whose pages may call the platform. Default: none. */
export const Origins: Context.Reference<AllowedOrigins> = Context.Reference<AllowedOrigins>("@stint/server/Cors/Origins", {
  defaultValue: () => []
})

/** The response headers that a page may read. */
const EXPOSED = [JOB_ID_HEADER, REQUEST_ID_HEADER, SHOULD_RETRY_HEADER, "RateLimit", "RateLimit-Policy", "Retry-After"]

/**
 * How long browsers cache a preflight response, in seconds. A longer time saves requests; with a shorter time, a changed setting takes
 * effect sooner.
 */
const MAX_AGE = 3_600

/** The middleware that guards callers' operations. */
const GUARDS: ReadonlySet<string> = new Set([JobsAuthorization.key, OpenAiAuthorization.key])

/** The first path segment after the endpoint of every caller operation, and their methods. */
const { methods, operations } = (() => {
  const operations = new Set<string>()
  const methods = new Set<string>()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, middleware }) => {
      const word = endpoint.path.split("/")[3]
      if (word === undefined || ![...middleware].some(({ key }) => GUARDS.has(key))) return
      operations.add(word)
      methods.add(endpoint.method)
    }
  })
  return { operations, methods: [...methods].toSorted() }
})()

/** Whether a URL belongs to a caller operation. */
const isCallerUrl = (url: string): boolean => {
  const word = /^\/+v2\/+[^/?#;]+\/+([^/?#;]+)/.exec(url)?.[1]
  return word !== undefined && operations.has(word)
}

/** Responds to preflight requests and adds CORS headers to responses. */
export const layer = HttpRouter.middleware(
  Effect.gen(function*() {
    const origins = yield* Origins
    const withCors = HttpMiddleware.cors({
      allowedOrigins: origins === "*" ? [] : origins,
      allowedMethods: methods,
      exposedHeaders: EXPOSED,
      maxAge: MAX_AGE
    })
    return (operation) => {
      // The middleware treats an empty list as "every origin".
      if (origins.length === 0) return operation
      const answered = withCors(operation)
      return Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ url }) => isCallerUrl(url) ? answered : operation)
    }
  }),
  { global: true }
)
