/**
 * Shared by readers of Server-Sent Events: handles an error response, and decides after which failures to reconnect.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { CliFailure } from "../CliFailure.ts"

/** After this many connections without an event or a response, the platform counts as unreachable. */
export const MAX_FAILURES = 30

/** The status that tells a reader of Server-Sent Events not to reconnect. */
export const NO_MORE = 204

const Problem = Schema.Struct({ error: Schema.String, hint: Schema.String })

const decodeProblem = Schema.decodeUnknownEffect(Problem)

/** Fails with the error that the platform sent instead of events. */
export const failWith = (status: number, body: Effect.Effect<unknown, unknown>): Effect.Effect<never, CliFailure> =>
  Effect.flatMap(
    Effect.orElseSucceed(
      Effect.flatMap(body, decodeProblem),
      (): typeof Problem.Type => ({ error: `The platform responded with status ${status}.`, hint: "" })
    ),
    ({ error, hint }) => new CliFailure({ message: error, hint, status })
  )

/**
 * The platform is restarting, a proxy cannot reach it, or the number of readers has reached its limit. In these cases the reader reconnects and
 * resumes.
 */
export const isTemporary = ({ code, status = 0 }: CliFailure): boolean => code === "unreachable" || status >= 500

/** The error of a reader that gives up. */
export const gone = new CliFailure({
  message: "The platform no longer responds.",
  hint: "Check whether it is running: stint health",
  code: "unreachable"
})
