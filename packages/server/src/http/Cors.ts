/**
 * Which web pages may call the platform (CORS): jobs API and OpenAI route only.
 *
 * ```
 *   a page of an allowed origin  --OPTIONS /v2/{endpoint}/run--> 204, what it may send      before any key is looked at
 *                                --POST /v2/{endpoint}/run-----> the answer, for the page to read
 *   a page of another origin     --the same-------------------> the answer, which its browser keeps from it
 * ```
 *
 * No cookie is read anywhere, so a page can do nothing without a key of its own, and any header may be sent: OpenAI's clients send a dozen.
 * Operators and workers do not call from web pages: their surfaces say nothing to browsers.
 */
import { Api } from "@stint/contract/Api"
import { JobsAuthorization } from "@stint/contract/Authorization"
import { JOB_ID_HEADER } from "@stint/contract/JobsApi"
import { OpenAiAuthorization, REQUEST_ID_HEADER, SHOULD_RETRY_HEADER } from "@stint/contract/OpenAiApi"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpMiddleware, HttpRouter, HttpServerRequest } from "effect/http"
import { HttpApi } from "effect/http-api"

/** `*`: every page. Otherwise origins as browsers send them: `https://app.example.com`, without a path. */
export type AllowedOrigins = "*" | ReadonlyArray<string>

/** Whose pages may call. Default: nobody's. */
export const Origins: Context.Reference<AllowedOrigins> = Context.Reference<AllowedOrigins>("@stint/server/Cors/Origins", {
  defaultValue: () => []
})

/** What a page may read of an answer, besides its body. */
const EXPOSED = [JOB_ID_HEADER, REQUEST_ID_HEADER, SHOULD_RETRY_HEADER, "RateLimit", "RateLimit-Policy", "Retry-After"]

/** How long a browser remembers what it was told, in seconds. Longer saves it a request, shorter makes a changed setting count sooner. */
const MAX_AGE = 3_600

/** Who guards the surfaces of callers. */
const GUARDS: ReadonlySet<string> = new Set([JobsAuthorization.key, OpenAiAuthorization.key])

/** What callers call: the word after the endpoint of every operation, and the methods of all. */
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

/** Whether an address is one of an operation that callers have. */
const isCallerUrl = (url: string): boolean => {
  const word = /^\/+v2\/+[^/?#;]+\/+([^/?#;]+)/.exec(url)?.[1]
  return word !== undefined && operations.has(word)
}

/** Answers browsers that ask, and tells them of every answer who may read it. */
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
      // An empty list would mean every origin to the middleware.
      if (origins.length === 0) return operation
      const answered = withCors(operation)
      return Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ url }) => isCallerUrl(url) ? answered : operation)
    }
  }),
  { global: true }
)
