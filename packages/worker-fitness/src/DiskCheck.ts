/**
 * Is there enough free space on the disk (docs/spec/fitness-checks.md#variables, docs/spec/fitness-checks.md#automatic-checks)?
 *
 * It looks at the file system of the working directory, which is where a handler writes. Space that is kept for root does not count as
 * free. A file system without a size, such as `/proc`, passes.
 *
 * The kernel is asked on this thread: to start Node's thread pool for it would add a good millisecond to each cold start. On a network file
 * system that hangs, the worker hangs with it, as it would at the first file that its handler opens.
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import { messageOf } from "@stint/worker/Outcome"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { statfsSync } from "node:fs"
import { FitnessCheckFailed, settingSuffix } from "./FitnessCheckFailed.ts"

/** What the check asks for. */
export interface Options {
  /** 0 to 100: how much of the file system has to be free. */
  readonly minimumPercent: number
  /** A path on the file system. Default: the working directory. */
  readonly path?: string
  /** What to change for another minimum, for the message: the name of a variable. Default: none. */
  readonly setting?: string
}

const GB = 2 ** 30

const unfit = (message: string) => new FitnessCheckFailed({ check: "disk", message })

/** Fails where less is free, and where the file system does not answer. */
export const check = Effect.fnUntraced(function*({ minimumPercent, path, setting }: Options) {
  const where = path ?? (yield* Effect.try({
    try: () => process.cwd(),
    catch: (error) => unfit(`the working directory is gone: ${messageOf(error)}`)
  }))
  const { bavail, blocks, bsize } = yield* Effect.try({
    try: () => statfsSync(where),
    catch: (error) => unfit(`the file system of ${where} does not answer: ${messageOf(error)}`)
  })
  if (blocks === 0) return yield* Effect.logDebug(`The file system of ${where} has no size: its free space is not checked.`)
  const percent = bavail / blocks * 100
  if (percent >= minimumPercent) return
  const [free, total] = [bavail, blocks].map((count) => (count * bsize / GB).toFixed(1))
  return yield* unfit(
    `${(Math.floor(percent * 10) / 10).toFixed(1)} % of the disk are free and ${minimumPercent} % are required` +
      `${settingSuffix(setting)}; ${free} of ${total} GB at ${where}`
  )
})

/** Adds the check `disk`. */
export const layer = (options: Options): Layer.Layer<never, never, FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf("disk", check(options))
