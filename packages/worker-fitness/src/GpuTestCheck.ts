/**
 * Tests the GPU with the user's own program (docs/spec/fitness-checks.md#automatic-checks). `PLATFORM_GPU_TEST_COMMAND` is specific to Stint.
 *
 * RunPod's SDK includes a test program. This package does not, because JavaScript cannot test a GPU. The needs of a handler (its own
 * kernel, the link between GPUs) are best tested by a program that its image already contains.
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { FitnessCheckFailed, settingSuffix } from "./FitnessCheckFailed.ts"
import * as Programs from "./Programs.ts"

/** Options for the check. */
export interface Options {
  /** A program (a path, or a name in the PATH) and its arguments. No shell interprets them. */
  readonly command: readonly [string, ...Array<string>]
  /** The time limit. Default: {@link DEFAULT_LIMIT}. Seconds. */
  readonly limit?: number
  /** The variable that sets the command, for the message. Default: none. */
  readonly setting?: string
}

/** As in RunPod's SDK. Seconds. */
const DEFAULT_LIMIT = 30

/** The check's name in reports. */
export const NAME = "gpu_test"

/**
 * Fails when the program cannot be started, exceeds the limit, or exits with a code other than 0. The message contains the last line of its
 * output.
 */
export const check = Effect.fnUntraced(function*({ command: [program, ...args], limit = DEFAULT_LIMIT, setting }: Options) {
  const unfit = (message: string) => new FitnessCheckFailed({ check: NAME, message })
  const ended = yield* Effect.mapError(
    Programs.run(program, args, limit),
    ({ message }) => unfit(`${message}${settingSuffix(setting)}`)
  )
  if (ended.code === 0) return
  const output = Programs.lastLine(ended.stderr) ?? Programs.lastLine(ended.stdout)
  return yield* unfit(
    `${program} ended with ${Programs.describeExit(ended)}${settingSuffix(setting)}${output === undefined ? "" : `: ${output}`}`
  )
})

/**
 * Adds the check `gpu_test`.
 *
 * @public
 */
export const layer = (options: Options): Layer.Layer<never, never, FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf(NAME, check(options))
