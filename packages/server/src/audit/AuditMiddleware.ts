/**
 * Records the audited operations (contract, Audit.ts).
 *
 * ```
 *   request --> whose key? --> guard --> operation --> result --> entry in the audit --> response
 *                                 \---403-----------/
 * ```
 *
 * It wraps the guards, so that it also records the operations that they refuse. A request with an unknown key is not recorded: anyone could fill the
 * audit with such requests. A call beyond a rate limit is not recorded either, because rejecting it must be cheap. The operations that every
 * job uses are not audited. The middleware passes them through unchanged, and the fast path never runs it.
 */
import { auditActionOf, AuditedOperations, type AuditResult, CALLER_GONE } from "@stint/contract/Audit"
import { KeyStore } from "@stint/store/KeyStore"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { HttpRouter, HttpServerRequest, type HttpServerResponse } from "effect/http"
import type { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import { AccessKeys } from "../auth/AccessKeys.ts"
import { keyOf } from "../auth/AuthGuards.ts"
import { IsConsoleSession } from "../console/BrowserSessions.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { AuditLog } from "./AuditLog.ts"

/**
 * Adds a part to the target of the entry, for operations whose path does not contain it: `yield* auditTarget("key", id)`. It also causes an entry for
 * a request without a key, which would otherwise not be recorded.
 */
const AuditTarget = Context.Reference<(part: string, id: string | number) => void>("@stint/server/AuditTarget", {
  defaultValue: () => () => {}
})

/** See {@link AuditTarget}. Does nothing in operations that are not audited. */
export const auditTarget = (part: string, id: string | number): Effect.Effect<void> =>
  Effect.map(AuditTarget, (add) => add(part, id))

/** Names for path parameters whose own names do not say what they identify. An empty name: the value continues the previous one. */
const PARTS: Readonly<Record<string, string>> = {
  "builds.number": "build",
  "jobs.id": "job",
  "batches.id": "batch",
  "errors.fingerprint": "error",
  "models.owner": "model",
  "models.name": ""
}

/** `/api/v1/endpoints/:endpoint/builds/:number` with its values: `endpoint/hello/build/3`; `/models/:owner/:name`: `model/openai/whisper`. */
const targetOf = (
  { endpoint, group }: AuditOptions,
  params: Readonly<Record<string, string | undefined>>
): ReadonlyArray<string> =>
  Array.from(
    endpoint.path.matchAll(/:(\w+)/g),
    ([, name = ""]) => {
      const word = PARTS[`${group.identifier}.${name}`] ?? name
      const value = excerpt(params[name] ?? "")
      return word === "" ? value : `${word}/${value}`
    }
  )

interface AuditOptions {
  readonly endpoint: HttpApiEndpoint.Top
  readonly group: HttpApiGroup.Top
}

/** The status of a response. Errors of operations contain their status; schema errors have none. */
const statusOf = (exit: Exit.Exit<HttpServerResponse.HttpServerResponse, unknown>): number => {
  if (Exit.isSuccess(exit)) return exit.value.status
  if (Cause.hasInterruptsOnly(exit.cause)) return CALLER_GONE
  const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
  if (error === undefined) return 500
  return Predicate.hasProperty(error, "status") && typeof error.status === "number" ? error.status : 400
}

const FORBIDDEN = 403

const TOO_MANY_REQUESTS = 429

const resultOf = (status: number): AuditResult => status < 400 ? "done" : status === FORBIDDEN ? "refused" : "failed"

/** Recorded as the key of a request that is signed instead. */
const WEBHOOK = { id: "webhook", name: "a signed webhook" }

const make = Effect.gen(function*() {
  const { record } = yield* AuditLog
  const keys = yield* AccessKeys
  const store = yield* KeyStore

  /** Read before the operation, which may revoke the key. */
  const identify = Effect.fnUntraced(function*({ headers }: HttpServerRequest.HttpServerRequest) {
    const found = yield* keys.identify(keyOf(Redacted.make(headers["authorization"] ?? "")))
    if (found._tag !== "Caller") return undefined
    const { id } = found.caller
    return { id, name: (yield* store.get(id))?.name ?? id }
  })

  const audit = (action: string, options: AuditOptions) => {
    // Programs may call these operations often. Their entries must not displace the entries for operators' changes.
    const kind = options.endpoint.method === "GET" || options.endpoint.path.startsWith("/v2/") ? "routine" : "platform"

    return <E>(respond: Effect.Effect<HttpServerResponse.HttpServerResponse, E>) =>
      Effect.gen(function*() {
        const request = yield* HttpServerRequest.HttpServerRequest
        const via = (yield* IsConsoleSession) ? "console" : "api"
        const params = yield* HttpRouter.params
        const caller = yield* identify(request)
        const named: Array<string> = []
        const write = Effect.fnUntraced(function*(exit: Exit.Exit<HttpServerResponse.HttpServerResponse, E>) {
          const by = caller ?? (named.length === 0 ? undefined : WEBHOOK)
          if (by === undefined) return
          const status = statusOf(exit)
          if (status === TOO_MANY_REQUESTS) return
          const result = resultOf(status)
          const target = [...targetOf(options, params), ...named]
          yield* record(result === "done" ? kind : "unsuccessful", {
            at: yield* Clock.currentTimeMillis,
            action,
            target: target.length === 0 ? "platform" : target.join("/"),
            key: by.id,
            name: by.name,
            via,
            address: Option.getOrElse(request.remoteAddress, () => "unknown"),
            result,
            status
          })
        })
        return yield* respond.pipe(
          Effect.provideService(AuditTarget, (part, id) => void named.push(`${part}/${excerpt(String(id))}`)),
          Effect.onExit(write)
        )
      })
  }

  return AuditedOperations.of((respond, options) => {
    const action = auditActionOf(options)
    return action === undefined ? respond : audit(action, options)(respond)
  })
})

/** The middleware. */
export const layer: Layer.Layer<AuditedOperations, never, AccessKeys | KeyStore> = Layer.effect(AuditedOperations, make)
