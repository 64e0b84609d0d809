/**
 * Admission of large bodies into memory. The server reserves memory for a large body before it reads the body, or while it reads a body of
 * unknown size, and releases it when the request ends. When the memory is full, it rejects the body.
 *
 * A response of a megabyte or more ends its request when its last byte is written, so the reservation also covers slow readers.
 */
import { problemMembers, Unavailable } from "@stint/contract/Problem"
import { PayloadMemoryBudget } from "@stint/store/PayloadMemoryBudget"
import * as Effect from "effect/Effect"
import { HttpEffect, HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { bytesInWords } from "./Limits.ts"

/** Seconds until a rejected caller should retry. Short, because every request that ends frees memory. */
const RETRY_AFTER = 1

/** Adds a header to the response of the current request. */
export const setHeader = (name: string, value: string): Effect.Effect<void> =>
  Effect.flatMap(
    Effect.serviceOption(HttpServerRequest.HttpServerRequest),
    Option.match({
      onNone: () => Effect.void,
      onSome: (request) =>
        HttpEffect.appendPreResponseHandler((_, response) => Effect.succeed(HttpServerResponse.setHeader(response, name, value)))
          .pipe(Effect.provideService(HttpServerRequest.HttpServerRequest, request))
    })
  )

/** Adds `Retry-After`, in seconds, to the response of the current request. */
export const setRetryAfter = (seconds: number): Effect.Effect<void> => setHeader("retry-after", String(seconds))

/** 503 with `Retry-After`: this number of bytes does not fit into the payload memory. */
export const memoryFull = (bytes: number): Effect.Effect<never, Unavailable> =>
  Effect.andThen(
    setRetryAfter(RETRY_AFTER),
    new Unavailable(problemMembers(
      `The platform has no memory left for a payload of ${
        bytesInWords(bytes)
      }: other large payloads are in flight. Nothing of this request was stored.`,
      `Send the request again in ${RETRY_AFTER} s. If this error persists, the operator can raise STINT_PAYLOADS_MEMORY.`
    ))
  )

/** Reserves memory for a body until the request ends. Fails with 503 when it does not fit. */
export const admit = (bytes: number): Effect.Effect<void, Unavailable, Scope.Scope> =>
  Effect.flatMap(
    PayloadMemoryBudget,
    (memory) => Effect.flatMap(memory.tryReserve(bytes), (fits) => fits ? Effect.void : memoryFull(bytes))
  )
