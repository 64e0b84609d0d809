/**
 * The fast path for the operations that every job and every idle worker use: submit, take, deliver, heartbeat, stop poll.
 *
 * ```
 *   request --> a plain URL of such an operation? --yes--> guard --> operation --> response
 *                 |                                    (AuthGuards)  (SubmitOperations, WorkerOperations)
 *                 no
 *                 `---> HttpRouter --> HttpApi ----------> guard --> operation --> response
 * ```
 *
 * Both paths run the same guards and operations and return the same responses. The fast path skips the routing and the decoding of the
 * router path. It reduces the server's CPU time per request, measured with 64 connections: for `/run` from 237 to 77 µs in memory and from
 * 243 to 111 µs on SQLite, and for a heartbeat from 94 to 42 µs (docs/decisions/0014-fast-path.md).
 *
 * This file only selects the path. A URL with an encoded character, a double slash or a query that needs decoding takes the router path.
 */
import { jobScopeOf } from "@stint/contract/AccessKey"
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

/** `/v2/{endpoint}/run`, and `runsync` with a `wait` in digits. The HttpApi decodes every other query. */
const SUBMIT = /^\/v2\/([\w-]+)\/(run|runsync)(?:\?wait=(\d{1,9}))?$/

/** `/v2/{endpoint}/job-take/{worker}` and similar, with the query that existing SDKs append (WorkerUrl.ts). */
const WORKER =
  /^\/v2\/([\w-]+)\/(job-take|job-take-batch|job-done-batch|job-stop|ping)\/([\w-][\w.-]*)(?:&[^/?#;%]*)?(?:\?[^#]*)?$/

/** `/v2/{endpoint}/job-done/{worker}/{job}`. */
const DONE = /^\/v2\/([\w-]+)\/job-done\/([\w-][\w.-]*)\/([\w-][\w.-]*)(?:&[^/?#;%]*)?(?:\?[^#]*)?$/

/** The operation in a plain URL. */
export type FastPathCall =
  | {
    readonly operation: "run" | "runsync"
    readonly endpoint: string
    readonly wait: string | undefined
  }
  | {
    readonly operation: "job-take" | "job-take-batch" | "job-done-batch" | "job-stop" | "ping" | "pingByPost"
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
  switch (operation) {
    case "ping":
      return { operation: method === "GET" ? "ping" : "pingByPost", endpoint, worker }
    case "job-done-batch":
      return method === "POST" ? { operation, endpoint, worker } : undefined
    case "job-take":
    case "job-take-batch":
    case "job-stop":
      return method === "GET" ? { operation, endpoint, worker } : undefined
    default:
      return undefined
  }
}

/** The operation that a request calls, if the fast path serves it and its URL is plain; otherwise undefined. */
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
  "job-done-batch": "/v2/:endpoint/job-done-batch/:worker",
  "job-stop": "/v2/:endpoint/job-stop/:worker",
  ping: "/v2/:endpoint/ping/:worker",
  pingByPost: "/v2/:endpoint/ping/:worker"
}

const make = Effect.gen(function*() {
  const guards = yield* AuthGuards
  const { run, runsync } = yield* SubmitOperations
  const { done, doneBatch, ping, pingByPost, stop, take, takeBatch } = yield* WorkerOperations

  /** Runs the call behind its guard. A disconnect interrupts the call, but a take or a stop poll can be interrupted only while it waits. */
  return (call: FastPathCall, request: HttpServerRequest.HttpServerRequest) => {
    const credential = Redacted.make(request.headers["authorization"] ?? "")
    const { operation } = call
    switch (operation) {
      case "run":
        return Effect.interruptible(
          guards.caller(
            (endpoint, caller) => run(endpoint, caller, request),
            credential,
            call.endpoint,
            operation,
            jobScopeOf(operation)
          )
        )
      case "runsync":
        return Effect.interruptible(
          guards.caller(
            (endpoint, caller) => runsync(endpoint, caller, request, call.wait),
            credential,
            call.endpoint,
            operation,
            jobScopeOf(operation)
          )
        )
      case "job-take":
        return guards.worker((identity) => take({ params: call, request, identity }), credential, call.endpoint, call.worker)
      case "job-take-batch":
        return guards.worker((identity) => takeBatch({ params: call, request, identity }), credential, call.endpoint, call.worker)
      case "job-stop":
        return guards.worker((identity) => stop({ params: call, request, identity }), credential, call.endpoint, call.worker)
      case "job-done":
        return Effect.interruptible(
          guards.worker((identity) => done({ params: call, request, identity }), credential, call.endpoint, call.worker)
        )
      case "job-done-batch":
        return Effect.interruptible(
          guards.worker((identity) => doneBatch({ params: call, request, identity }), credential, call.endpoint, call.worker)
        )
      case "ping":
        return Effect.interruptible(
          guards.worker((identity) => ping({ params: call, request, identity }), credential, call.endpoint, call.worker)
        )
      case "pingByPost":
        return Effect.interruptible(
          guards.worker((identity) => pingByPost({ params: call, request, identity }), credential, call.endpoint, call.worker)
        )
    }
  }
})

/** Sets the route on the request's span if the request is traced. */
const setRoute = (fiber: Fiber.Fiber<unknown, unknown>, route: string): void => {
  if (fiber.getRef(Tracer.Tracer) === Tracer.nativeTracer) return
  const span = Context.getOrUndefined(fiber.context, Tracer.ParentSpan)
  if (span !== undefined && span._tag === "Span" && span.sampled) span.attribute("http.route", route)
}

/** Whether the fast path is on. Without it every request takes the router path, with the same responses. For tests and for debugging. */
export const FastPathEnabled: Context.Reference<boolean> = Context.Reference<boolean>("@stint/server/FastPathEnabled", {
  defaultValue: () => true
})

/** Serves these operations before the request reaches the router. */
export const layer = Layer.unwrap(Effect.map(FastPathEnabled, (isEnabled) =>
  isEnabled
    ? HttpRouter.middleware(
      Effect.map(make, (serve) => (router) =>
        Effect.withFiber((fiber) => {
          const request = Context.getUnsafe(fiber.context, HttpServerRequest.HttpServerRequest)
          const call = matchFastPath(request.method, request.url)
          if (call === undefined) return router
          setRoute(fiber, routes[call.operation])
          return Effect.catch(serve(call, request), HttpServerRespondable.toResponse)
        })),
      { global: true }
    )
    : Layer.empty))
