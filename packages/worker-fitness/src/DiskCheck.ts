/**
 * Checks the free space on the disk (docs/spec/fitness-checks.md#variables, docs/spec/fitness-checks.md#automatic-checks).
 *
 * It checks the file system of the working directory, where handlers write. Space reserved for root does not count as free. A file system
 * without a size, such as `/proc`, passes.
 *
 * The system call is synchronous, because starting Node's thread pool would add over a millisecond to each cold start. If a network file
 * system hangs, the worker hangs too, as it would when its handler opens its first file.
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import { messageOf } from "@stint/worker/ThrownValue"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { FitnessCheckFailed, settingSuffix } from "./FitnessCheckFailed.ts"

/** Options for the check. */
export interface Options {
  /** The share of the file system that must be free, 0 to 100. */
  readonly minimumPercent: number
  /** A path on the file system. Default: the working directory. */
  readonly path?: string
  /** The variable that sets the minimum, for the message. Default: none. */
  readonly setting?: string
}

const GB = 2 ** 30

const unfit = (message: string) => new FitnessCheckFailed({ check: "disk", message })

/** Fails when less space is free, and when the file system does not respond. */
export const check = Effect.fnUntraced(function*({ minimumPercent, path, setting }: Options) {
  const where = path ?? (yield* Effect.try({
    try: () => process.cwd(),
    catch: (error) => unfit(`the working directory no longer exists: ${messageOf(error)}`)
  }))
  const { bavail, blocks, bsize } = yield* Effect.try({
    // `import "node:fs"` reads all its exports, which loads Node's streams and adds 3 ms to a cold start.
    try: () => process.getBuiltinModule("node:fs").statfsSync(where),
    catch: (error) => unfit(`the file system of ${where} does not respond: ${messageOf(error)}`)
  })
  if (blocks === 0) return yield* Effect.logDebug(`The file system of ${where} has no size, so its free space is not checked.`)
  const percent = bavail / blocks * 100
  if (percent >= minimumPercent) return
  const [free, total] = [bavail, blocks].map((count) => (count * bsize / GB).toFixed(1))
  return yield* unfit(
    `${(Math.floor(percent * 10) / 10).toFixed(1)} % of the disk is free, but ${minimumPercent} % is required` +
      `${settingSuffix(setting)}; ${free} of ${total} GB at ${where}`
  )
})

/**
 * Adds the check `disk`.
 *
 * @public
 */
export const layer = (options: Options): Layer.Layer<never, never, FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf("disk", check(options))
