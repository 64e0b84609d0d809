/**
 * Does a program of the user's own find the GPU healthy (docs/spec/fitness-checks.md#automatic-checks; ours: `PLATFORM_GPU_TEST_COMMAND`)?
 *
 * The described SDK brings a program of its own along; this package has none to bring, because a GPU is not tested by JavaScript. What
 * matters to a handler (a kernel of its own, a link between GPUs) is best tested by what its image has anyway.
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { FitnessCheckFailed, settingSuffix } from "./FitnessCheckFailed.ts"
import * as Programs from "./Programs.ts"

/** What is run. */
export interface Options {
  /** A program, by its path or out of the PATH, and its arguments. No shell looks at them. */
  readonly command: readonly [string, ...Array<string>]
  /** How long it may take. Default: {@link DEFAULT_LIMIT}. Seconds. */
  readonly limit?: number
  /** Where the command comes from, for the message: the name of a variable. Default: none. */
  readonly setting?: string
}

/** As in the described SDK. Seconds. */
export const DEFAULT_LIMIT = 30

/** The check's name in reports. */
export const NAME = "gpu_test"

/** Fails where the program cannot be started, does not end in time, or ends with anything but 0: the reason is the last line it wrote. */
export const check = Effect.fnUntraced(function*({ command: [program, ...args], limit = DEFAULT_LIMIT, setting }: Options) {
  const unfit = (message: string) => new FitnessCheckFailed({ check: NAME, message })
  const ended = yield* Effect.mapError(
    Programs.run(program, args, limit),
    ({ message }) => unfit(`${message}${settingSuffix(setting)}`)
  )
  if (ended.code === 0) return
  const said = Programs.lastLine(ended.stderr) ?? Programs.lastLine(ended.stdout)
  return yield* unfit(
    `${program} ended with ${Programs.describeExit(ended)}${settingSuffix(setting)}${said === undefined ? "" : `: ${said}`}`
  )
})

/** Adds the check `gpu_test`. */
export const layer = (options: Options): Layer.Layer<never, never, FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf(NAME, check(options))
