/**
 * Large bodies and the memory they take: counted from before they are read until their request is over, and refused where there is no room.
 *
 * An answer of a megabyte or more ends its request when its last byte is written, so a caller who reads slowly holds what it reads.
 */
import { problemMembers, Unavailable } from "@stint/contract/Problem"
import { BUDGET_THRESHOLD_BYTES, PayloadMemoryBudget } from "@stint/store/PayloadMemoryBudget"
import * as Effect from "effect/Effect"
import { HttpEffect, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { json } from "./JsonResponse.ts"
import { bytesInWords } from "./Limits.ts"

/** When to come back, in seconds: room comes with every request that ends. */
const RETRY_AFTER = 1

/** The answer to this request says in how many seconds to come back. */
export const setRetryAfter = (seconds: number): Effect.Effect<void> =>
  Effect.flatMap(
    Effect.serviceOption(HttpServerRequest.HttpServerRequest),
    Option.match({
      onNone: () => Effect.void,
      onSome: (request) =>
        HttpEffect.appendPreResponseHandler((_, response) =>
          Effect.succeed(HttpServerResponse.setHeader(response, "retry-after", String(seconds)))
        ).pipe(Effect.provideService(HttpServerRequest.HttpServerRequest, request))
    })
  )

/** 503 with `Retry-After`: so many bytes do not fit into memory now. */
export const memoryFull = (bytes: number): Effect.Effect<never, Unavailable> =>
  Effect.andThen(
    setRetryAfter(RETRY_AFTER),
    new Unavailable(problemMembers(
      `The platform has no room in memory for ${
        bytesInWords(bytes)
      } more: other large payloads are on their way. Nothing of this request was kept.`,
      `Send the request again in ${RETRY_AFTER} s. If this lasts, the operator can allow more (STINT_PAYLOADS_MEMORY).`
    ))
  )

/** Holds memory for a body of so many bytes until the request is over. Fails with 503 where it does not fit. */
export const admit = (bytes: number): Effect.Effect<void, Unavailable, Scope.Scope> =>
  Effect.flatMap(
    PayloadMemoryBudget,
    (memory) => Effect.flatMap(memory.tryReserve(bytes), (fits) => fits ? Effect.void : memoryFull(bytes))
  )

/** Counts a large text until the request is over. */
const reserve = (text: string): Effect.Effect<void, never, Scope.Scope> =>
  Effect.flatMap(PayloadMemoryBudget, (memory) => memory.reserve(text.length))

/** 200 with that JSON text, counted until it is written where it is large. */
export const answer = (
  text: string,
  headers?: Readonly<Record<string, string>>
): Effect.Effect<HttpServerResponse.HttpServerResponse, never, Scope.Scope> =>
  text.length < BUDGET_THRESHOLD_BYTES ? Effect.succeed(json(text, headers)) : Effect.as(reserve(text), json(text, headers))

/** The same for a text that comes later than the head of its answer. */
export const countMemory = <E, R>(late: Effect.Effect<string, E, R>): Effect.Effect<string, E, R | Scope.Scope> =>
  Effect.tap(late, (text) => text.length < BUDGET_THRESHOLD_BYTES ? Effect.void : reserve(text))
