/**
 * One variable of the environment, read with words for when it is wrong.
 */
import type * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import { CliFailure } from "../CliFailure.ts"

/** One variable: its value, or a failure that says what its value has to look like. */
export const setting = <A>(name: string, shape: string, config: Config.Config<A>): Effect.Effect<A, CliFailure> =>
  Effect.catch(config, () =>
    Effect.fail(
      new CliFailure({
        message: `The variable ${name} has a value that cannot be used.`,
        hint: `It has to be ${shape}. Unset it to use the default.`
      })
    ))
