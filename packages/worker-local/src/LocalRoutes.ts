/**
 * Maps the paths of the local API to the server's paths (docs/spec/local-test-mode.md#local-api).
 *
 * ```
 *   a page from another origin    403
 *   GET /, /docs                  the page; 307 to it
 *   POST /run, /runsync           /v2/local/run, runsync      429 while too many jobs wait, 503 during shutdown
 *   POST /status/{id}             /v2/local/status-sync/{id}
 *   POST /stream, /cancel/{id}    /v2/local/stream, cancel/{id}
 *   GET /health                   /v2/local/health
 *   /v2/{any id}/...              /v2/local/...
 *   another method, another path  405 with Allow; 404
 * ```
 */
import { JOB_ID_HEADER } from "@stint/contract/JobsApi"
import { excerpt, PROBLEM_CONTENT_TYPE, problemJson } from "@stint/server/ProblemJson"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import type { HttpServer } from "effect/http"
import { page } from "./LocalServerPage.ts"

/** The endpoint of the local API. Every `/v2/{id}` is mapped to it. */
export const ENDPOINT = "local"

/** The maximum number of waiting jobs, because they are in memory. */
export const MAX_QUEUED_JOBS = 1_000

/** The state of the local API. */
export class LocalApi extends Context.Service<LocalApi, {
  /** Without a trailing slash: `http://127.0.0.1:8000`. */
  readonly baseUrl: string
  /** Whether the server listens on an address other than loopback. */
  readonly isPublic: boolean
  /** The number of waiting jobs. */
  readonly queued: Effect.Effect<number>
  /** Why the process is stopping; undefined while it is not. */
  stopping: string | undefined
}>()("@stint/worker-local/LocalRoutes/LocalApi") {}

interface Route {
  readonly method: "GET" | "POST"
  /** The server's operation. */
  readonly operation: string
}

/** The routes, with and without a job id. */
const ROUTES: { readonly [name: string]: Route } = {
  run: { method: "POST", operation: "run" },
  runsync: { method: "POST", operation: "runsync" },
  health: { method: "GET", operation: "health" }
}
const JOB_ROUTES: { readonly [name: string]: Route } = {
  status: { method: "POST", operation: "status-sync" },
  stream: { method: "POST", operation: "stream" },
  cancel: { method: "POST", operation: "cancel" }
}

/** The operations that accept GET on a deployed endpoint. */
const READABLE = new Set(["status", "stream"])

const TITLES = {
  403: { type: "forbidden", title: "Forbidden" },
  404: { type: "route-not-found", title: "Not found" },
  405: { type: "method-not-allowed", title: "Method not allowed" },
  429: { type: "too-many-requests", title: "Too many requests" },
  503: { type: "unavailable", title: "Temporarily unavailable" }
} as const

const problem = (status: keyof typeof TITLES, error: string, hint: string, headers: Record<string, string> = {}) =>
  HttpServerResponse.text(problemJson({ status, ...TITLES[status], error, hint }), {
    status,
    contentType: PROBLEM_CONTENT_TYPE,
    headers
  })

/** Whether a URL's host name can be reached only from this machine. */
export const isLoopback = (hostname: string): boolean =>
  hostname === "localhost" || hostname.endsWith(".localhost") || hostname === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(hostname)

/**
 * Whether the request comes from a web page from another origin. The local API has no keys, so without this check every page that is open in
 * a browser on this machine could run the handler. Pages served by this machine may call the API. When the server listens on a public
 * address, its own page may call the API too.
 */
const isForeignPage = ({ host, origin }: { readonly [name: string]: string | undefined }, isPublic: boolean): boolean => {
  if (origin === undefined) return false
  const url = URL.canParse(origin) ? new URL(origin) : undefined
  return url === undefined || !(isLoopback(url.hostname) || (isPublic && url.host === host))
}

const notAllowed = (method: string, path: string, allow: string, hint = "") =>
  problem(405, `${excerpt(path)} does not support ${method}.`, `Use ${allow.replace(", ", " or ")}.${hint}`, { allow })

/** Maps a request to the local API to the server's URL, or to an error response. */
const match = (
  method: string,
  url: string
): { readonly url: string } | { readonly response: HttpServerResponse.HttpServerResponse } => {
  const [target = "", query] = url.split(/(?=[?#])/s, 2)
  const path = target.replaceAll(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "")
  const [, first = "", second, ...rest] = path.split("/")
  if (first === "v2" && rest.length > 0) return { url: `/v2/${ENDPOINT}/${rest.join("/")}${query ?? ""}` }
  const table = second === undefined ? ROUTES : JOB_ROUTES
  const route = rest.length === 0 && Object.hasOwn(table, first) ? table[first] : undefined
  if (route === undefined) {
    return {
      response: problem(
        404,
        `There is no operation ${method} ${excerpt(path)}.`,
        "The local API has POST /run, /runsync, /status/{id}, /stream/{id}, /cancel/{id} and GET /health; GET / describes them. " +
          "Below /v2/{any id} it has every operation of a deployed endpoint."
      )
    }
  }
  if (method !== route.method) {
    const hint = method === "GET" && READABLE.has(first)
      ? ` As on a deployed endpoint, GET works at /v2/${ENDPOINT}${excerpt(path)}.`
      : ""
    return { response: notAllowed(method, path, route.method, hint) }
  }
  return { url: `/v2/${ENDPOINT}/${route.operation}${second === undefined ? "" : `/${second}`}${query ?? ""}` }
}

/** The pages, by path. */
const pageOf = (request: HttpServerRequest.HttpServerRequest, { baseUrl }: LocalApi["Service"]) => {
  const path = request.url.split(/[?#]/, 1)[0]
  if (path !== "/" && path !== "/docs") return undefined
  if (request.method !== "GET" && request.method !== "HEAD") return notAllowed(request.method, path, "GET, HEAD")
  return path === "/docs"
    ? HttpServerResponse.empty({ status: 307, headers: { location: "/" } })
    : page(request.headers["host"], baseUrl)
}

type App = Parameters<HttpServer.HttpServer["Service"]["serve"]>[0]

/** The local API over the server's routes. */
export const make = (app: App, api: LocalApi["Service"]): App =>
  Effect.gen(function*() {
    const request = yield* HttpServerRequest.HttpServerRequest
    if (isForeignPage(request.headers, api.isPublic)) {
      return problem(
        403,
        `The page ${excerpt(request.headers["origin"] ?? "")} may not call the local API, which has no keys.`,
        "Serve the page from this machine (http://localhost:...), or call the API from a program."
      )
    }
    const document = pageOf(request, api)
    if (document !== undefined) return document
    const matched = match(request.method, request.url)
    if ("response" in matched) return matched.response
    if (request.method === "POST" && /^\/v2\/local\/run(?:sync)?(?:\?|$)/.test(matched.url)) {
      if (api.stopping !== undefined) {
        return problem(503, `The local API is stopping (${api.stopping}).`, "Start it again, then send the job again.")
      }
      if ((yield* api.queued) >= MAX_QUEUED_JOBS) {
        return problem(
          429,
          `${MAX_QUEUED_JOBS} jobs are waiting, which is the limit of the local API.`,
          "Wait until some jobs have ended, or run more at once with --rp_api_concurrency."
        )
      }
    }
    const response = yield* Effect.provideService(
      app,
      HttpServerRequest.HttpServerRequest,
      request.modify({ url: matched.url })
    )
    // As specified, /run returns IN_PROGRESS even while the job is waiting.
    const id = request.url.startsWith("/run") && matched.url.endsWith("/run") ? response.headers[JOB_ID_HEADER] : undefined
    return id === undefined ? response : HttpServerResponse.jsonUnsafe({ id, status: "IN_PROGRESS" })
  })
