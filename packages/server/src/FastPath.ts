/**
 * The short way for the calls that come with every job: submit, take, deliver, heartbeat.
 *
 * ```
 *   request --> one of these, plainly addressed? --yes--> guard --> operation --> answer
 *                 |                                       (Guards)  (SubmitOperations, WorkerOperations)
 *                 no
 *                 `---> HttpRouter --> HttpApi ---------> guard --> operation --> answer
 * ```
 *
 * Both ways lead through the same guards to the same operations and answer the same; the long way costs several times the processor time
 * of an operation (docs/decisions/0014-fast-path.md). So nothing is decided here but which way a request goes, and whatever is unusual
 * about an address (an encoded character, a doubled slash, a query that has to be decoded) goes the long way.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import { HttpRouter, HttpServerRequest, HttpServerRespondable } from "effect/http"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Tracer from "effect/Tracer"
import { AuthGuards } from "./auth/AuthGuards.ts"
import { SubmitOperations } from "./jobs/SubmitOperations.ts"
import { WorkerOperations } from "./workers/WorkerOperations.ts"

/** `/v2/{endpoint}/run`, and `runsync` with a `wait` in digits: every other query is the HttpApi's to decode. */
const SUBMIT = /^\/v2\/([\w-]+)\/(run|runsync)(?:\?wait=(\d{1,9}))?$/

/** `/v2/{endpoint}/job-take/{worker}` and the like; with the tail that existing SDKs append (WorkerAddress.ts). */
const WORKER = /^\/v2\/([\w-]+)\/(job-take|job-take-batch|ping)\/([\w-][\w.-]*)(?:&[^/?#;%]*)?(?:\?[^#]*)?$/

/** `/v2/{endpoint}/job-done/{worker}/{job}`. */
const DONE = /^\/v2\/([\w-]+)\/job-done\/([\w-][\w.-]*)\/([\w-][\w.-]*)(?:&[^/?#;%]*)?(?:\?[^#]*)?$/

/** What a plain address names. */
export type FastPathCall =
  | {
    readonly operation: "run" | "runsync"
    readonly endpoint: string
    readonly wait: string | undefined
  }
  | {
    readonly operation: "job-take" | "job-take-batch" | "ping" | "pingByPost"
    readonly endpoint: string
    readonly worker: string
  }
  | { readonly operation: "job-done"; readonly endpoint: string; readonly worker: string; readonly id: string }

const submitOf = (url: string): FastPathCall | undefined => {
  const [, endpoint, operation, wait] = SUBMIT.exec(url) ?? []
  return endpoint === undefined ? undefined : { operation: operation === "run" ? "run" : "runsync", endpoint, wait }
}

const doneOf = (url: string): FastPathCall | undefined => {
  const [, endpoint, worker, id] = DONE.exec(url) ?? []
  return endpoint === undefined || worker === undefined || id === undefined
    ? undefined
    : { operation: "job-done", endpoint, worker, id }
}

const workerOf = (method: "GET" | "POST", url: string): FastPathCall | undefined => {
  const [, endpoint, operation, worker] = WORKER.exec(url) ?? []
  if (endpoint === undefined || worker === undefined) return undefined
  if (operation === "ping") return { operation: method === "GET" ? "ping" : "pingByPost", endpoint, worker }
  if (method === "POST") return undefined
  return { operation: operation === "job-take" ? "job-take" : "job-take-batch", endpoint, worker }
}

/** What a request calls, where that is served here and its address is plain; undefined for everything else. */
export const matchFastPath = (method: string, url: string): FastPathCall | undefined => {
  switch (method) {
    case "GET":
      return workerOf(method, url)
    case "POST":
      return submitOf(url) ?? doneOf(url) ?? workerOf(method, url)
    default:
      return undefined
  }
}

/** Each operation's path in the HttpApi, for traces. */
const routes: { readonly [operation in FastPathCall["operation"]]: string } = {
  run: "/v2/:endpoint/run",
  runsync: "/v2/:endpoint/runsync",
  "job-take": "/v2/:endpoint/job-take/:worker",
  "job-take-batch": "/v2/:endpoint/job-take-batch/:worker",
  "job-done": "/v2/:endpoint/job-done/:worker/:id",
  ping: "/v2/:endpoint/ping/:worker",
  pingByPost: "/v2/:endpoint/ping/:worker"
}

const make = Effect.gen(function*() {
  const guards = yield* AuthGuards
  const { run, runsync } = yield* SubmitOperations
  const { done, ping, pingByPost, take, takeBatch } = yield* WorkerOperations

  /** The call behind its guard. A hang-up of the client ends it, but for takes: those say themselves where they may be ended. */
  return (call: FastPathCall, request: HttpServerRequest.HttpServerRequest) => {
    const credential = Redacted.make(request.headers["authorization"] ?? "")
    const { endpoint, operation } = call
    switch (operation) {
      case "run":
        return Effect.interruptible(guards.caller(run(endpoint, request), credential, endpoint, operation))
      case "runsync":
        return Effect.interruptible(guards.caller(runsync(endpoint, request, call.wait), credential, endpoint, operation))
      case "job-take":
        return guards.worker(take({ params: call, request }), credential, endpoint)
      case "job-take-batch":
        return guards.worker(takeBatch({ params: call, request }), credential, endpoint)
      case "job-done":
        return Effect.interruptible(guards.worker(done({ params: call, request }), credential, endpoint))
      case "ping":
        return Effect.interruptible(guards.worker(ping({ params: call, request }), credential, endpoint))
      case "pingByPost":
        return Effect.interruptible(guards.worker(pingByPost({ params: call, request }), credential, endpoint))
    }
  }
})

/** Tells the trace of the request, where there is one, which route it took. */
const nameRoute = (fiber: Fiber.Fiber<unknown, unknown>, route: string): void => {
  if (fiber.getRef(Tracer.Tracer) === Tracer.nativeTracer) return
  const span = Context.getOrUndefined(fiber.context, Tracer.ParentSpan)
  if (span !== undefined && span._tag === "Span" && span.sampled) span.attribute("http.route", route)
}

/** Whether there is a short way. Without it everything goes the long way, and is answered the same: for tests, and to rule it out. */
export const FastPathEnabled: Context.Reference<boolean> = Context.Reference<boolean>("@stint/server/FastPathEnabled", {
  defaultValue: () => true
})

/** Serves those calls ahead of the router. */
export const layer = Layer.unwrap(Effect.map(FastPathEnabled, (isOpen) =>
  isOpen
    ? HttpRouter.middleware(
      Effect.map(make, (serve) => (router) =>
        Effect.withFiber((fiber) => {
          const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
          const call = matchFastPath(request.method, request.url)
          if (call === undefined) return router
          nameRoute(fiber, routes[call.operation])
          return Effect.catch(serve(call, request), HttpServerRespondable.toResponse)
        })),
      { global: true }
    )
    : Layer.empty))
