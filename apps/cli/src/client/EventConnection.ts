/**
 * What readers of Server-Sent Events have in common: the error in place of events, and which failures are worth another connection.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { CliFailure } from "../CliFailure.ts"

/** After as many connections without an event or an answer, the platform counts as unreachable. */
export const MAX_FAILURES = 30

/** The status that tells a reader of Server-Sent Events not to connect again. */
export const NO_MORE = 204

const Problem = Schema.Struct({ error: Schema.String, hint: Schema.String })

const decodeProblem = Schema.decodeUnknownEffect(Problem)

/** Fails with the error that the platform sent in place of events. */
export const failWith = (status: number, body: Effect.Effect<unknown, unknown>): Effect.Effect<never, CliFailure> =>
  Effect.flatMap(
    Effect.orElseSucceed(
      Effect.flatMap(body, decodeProblem),
      (): typeof Problem.Type => ({ error: `The platform answered ${status}.`, hint: "" })
    ),
    ({ error, hint }) => new CliFailure({ message: error, hint, status })
  )

/** The platform restarts, its proxy says so, or all places for readers are taken. A lost connection that comes back is resumed. */
export const isTemporary = ({ code, status = 0 }: CliFailure): boolean => code === "unreachable" || status >= 500

/** The error of a reader that gives up. */
export const gone = new CliFailure({
  message: "The platform does not answer any more.",
  hint: "Check whether it runs: stint health",
  code: "unreachable"
})
