/**
 * Performs programs with Effect: `HttpClient` for the calls, so that they are traced and can be swapped, and the Clock for the pauses.
 *
 * Interruption ends the request or the pause of the moment, and with it the program.
 */
import { Health } from "@stint/contract/Health"
import { Job, JobReceipt, Purged, StreamPage } from "@stint/contract/Job"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { type HttpClient, HttpClientRequest } from "effect/http"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import { CallError } from "./CallError.ts"
import { type ClientError, fromCallError } from "./ClientError.ts"
import type { Answer, Call, Pause, Program, Readers, Rested, Silence, Step } from "./Wire.ts"

const reading = <A>(schema: Schema.ConstraintDecoder<A>) => {
  const decode = Schema.decodeUnknownOption(schema)
  return (json: unknown): A | undefined => Option.getOrUndefined(decode(json))
}

/** Reads answers with the contract's Schemas. */
export const readers: Readers = {
  job: reading(Job),
  receipt: reading(JobReceipt),
  page: reading(StreamPage),
  purged: reading(Purged),
  health: reading(Health)
}

const requestOf = ({ body, headers, method, url }: Call) => {
  const request = HttpClientRequest.make(method)(url, { headers })
  return body === undefined ? request : HttpClientRequest.bodyText(request, body, "application/json")
}

const call = (http: HttpClient.HttpClient, step: Call): Effect.Effect<Answer | Silence> =>
  Effect.gen(function*() {
    const start = yield* Clock.currentTimeMillis
    const took = Effect.map(Clock.currentTimeMillis, (now) => now - start)
    const silence = (cause: unknown, timedOut: boolean) =>
      Effect.map(took, (took): Silence => ({ _tag: "Silence", cause, timedOut, took }))
    return yield* http.execute(requestOf(step)).pipe(
      Effect.flatMap(({ headers, status, text }) =>
        Effect.zipWith(text, took, (text, took): Answer => ({
          _tag: "Answer",
          status,
          text,
          retryAfter: headers["retry-after"],
          location: headers["location"],
          took
        }))
      ),
      Effect.catchTag("HttpClientError", (error) => silence(error, false)),
      Effect.timeoutOrElse({ duration: step.timeout, orElse: () => silence(undefined, true) })
    )
  })

const rest = ({ atLeast, spread }: Pause): Effect.Effect<Rested> =>
  Effect.gen(function*() {
    const took = atLeast + (yield* Random.next) * spread
    yield* Effect.sleep(took)
    return { _tag: "Rested", took }
  })

/** Performs programs over one `HttpClient`. The program is made anew every time that the effect runs. */
export type Drive = <A>(program: () => Program<A>) => Effect.Effect<A, ClientError>

/** The driver over an `HttpClient`. */
export const make = (http: HttpClient.HttpClient): Drive => {
  const perform = (step: Step) => step._tag === "Call" ? call(http, step) : rest(step)
  return Effect.fnUntraced(function*<A>(program: () => Program<A>): Effect.fn.Return<A, ClientError> {
    const steps = program()
    // What a program throws is a CallError; anything else is a mistake of ours.
    const advance = (...reply: [] | [Answer | Silence | Rested]) =>
      Effect.suspend(() => {
        try {
          return Effect.succeed(steps.next(...reply))
        } catch (error) {
          return error instanceof CallError ? Effect.fail(fromCallError(error)) : Effect.die(error)
        }
      })
    let next = yield* advance()
    while (next.done !== true) next = yield* advance(yield* perform(next.value))
    return next.value
  })
}
