/**
 * Responses with a body of JSON text.
 */
import { BUDGET_THRESHOLD_BYTES, PayloadMemoryBudget } from "@stint/store/PayloadMemoryBudget"
import * as Effect from "effect/Effect"
import { HttpServerResponse } from "effect/http"
import type * as Scope from "effect/Scope"

/**
 * Browsers must not guess that a response with a caller's text is a page or a script. `Fallback` adds this header to every response without it, which
 * copies the response. So the responses of frequent calls have it from the start.
 */
export const NOSNIFF: { readonly "x-content-type-options": string } = { "x-content-type-options": "nosniff" }

const JSON_TEXT = { contentType: "application/json", headers: NOSNIFF } as const

/** 200 with that JSON text. Existing workers require exactly this content type (docs/spec/worker-protocol.md#headers). */
export const json = (
  text: string,
  headers?: Readonly<Record<string, string>>
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(
    text,
    headers === undefined ? JSON_TEXT : { contentType: "application/json", headers: { ...headers, ...NOSNIFF } }
  )

/** Reserves payload memory for a text until the request ends. */
const reserve = (text: string): Effect.Effect<void, never, Scope.Scope> =>
  Effect.flatMap(PayloadMemoryBudget, (memory) => memory.reserve(text.length))

/** 200 with that JSON text. A large text counts towards the payload memory until it has been written. */
export const trackedJson = (
  text: string,
  headers?: Readonly<Record<string, string>>
): Effect.Effect<HttpServerResponse.HttpServerResponse, never, Scope.Scope> =>
  text.length < BUDGET_THRESHOLD_BYTES ? Effect.succeed(json(text, headers)) : Effect.as(reserve(text), json(text, headers))

/** Counts the bytes of a body that is generated after the response headers are sent, as {@link trackedJson} does. */
export const trackMemory = <E, R>(late: Effect.Effect<string, E, R>): Effect.Effect<string, E, R | Scope.Scope> =>
  Effect.tap(late, (text) => text.length < BUDGET_THRESHOLD_BYTES ? Effect.void : reserve(text))
