/**
 * `/api/v1/session`: logs a browser in and out, and returns what its key permits (docs/operations/console.md).
 *
 * These routes are not in the `HttpApi`, because only the console can use them: programs send their key with each request.
 */
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServerRespondable, HttpServerResponse } from "effect/http"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Caller } from "../auth/AccessKeys.ts"
import { AuthGuards } from "../auth/AuthGuards.ts"
import { decoder, parseJson, readText } from "../http/RequestBody.ts"
import { BrowserSessions, foreignOriginResponse, MAX_KEY_BYTES } from "./BrowserSessions.ts"

const PATH = "/api/v1/session"

const HINT = "Send {\"key\": \"...\"} with the platform's API key or a key that `stint keys create` printed."

const decodeLogin = decoder(Schema.Struct({ key: Schema.NonEmptyString }), HINT)

const NO_STORE = { "cache-control": "no-store" }

/** What the console needs to know about its key. It never contains the key. */
const sessionJson = ({ endpoints, id, name, scopes }: Caller): string => JSON.stringify({ id, name, scopes, endpoints })

/** The routes. */
export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const sessions = yield* BrowserSessions
  const guards = yield* AuthGuards

  yield* router.add("GET", PATH, (request) =>
    guards.viewer(
      (caller) =>
        Effect.succeed(HttpServerResponse.text(sessionJson(caller), { contentType: "application/json", headers: NO_STORE })),
      Redacted.make(request.headers["authorization"] ?? ""),
      "console"
    ).pipe(Effect.catch(HttpServerRespondable.toResponse)))

  yield* router.add("POST", PATH, (request) =>
    Effect.gen(function*() {
      const foreign = sessions.foreignOrigin(request)
      if (foreign !== undefined) return foreignOriginResponse(foreign)
      const text = yield* readText(request, MAX_KEY_BYTES, "A key is short: check that the body contains only the key.")
      const { key } = yield* decodeLogin(yield* parseJson(text, HINT))
      const credential = Redacted.make(key.trim())
      return yield* guards.viewer(
        (caller) => {
          // Also ends the browser's previous session, so that a second login leaves only one.
          sessions.close(request)
          return Effect.succeed(HttpServerResponse.text(sessionJson(caller), {
            contentType: "application/json",
            headers: { ...NO_STORE, "set-cookie": sessions.open(request, credential) }
          }))
        },
        credential,
        "console"
      )
    }).pipe(Effect.catch(HttpServerRespondable.toResponse)))

  yield* router.add("DELETE", PATH, (request) => {
    const foreign = sessions.foreignOrigin(request)
    return Effect.succeed(
      foreign === undefined
        ? HttpServerResponse.empty({ status: 204, headers: { "set-cookie": sessions.close(request) } })
        : foreignOriginResponse(foreign)
    )
  })
}))
