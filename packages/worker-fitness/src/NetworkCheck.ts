/**
 * Can the platform be reached (docs/spec/fitness-checks.md#automatic-checks)?
 *
 * It opens a TCP connection to where jobs come from, and closes it. The described platform's own SDK connects to 8.8.8.8:53 instead. That
 * says little about the platform, and it fails on a machine that is closed to the internet on purpose, which serves jobs well.
 *
 * A connection that is refused is tried again until the limit is over: a platform that restarts just now is no reason to end a worker.
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import { messageOf } from "@stint/worker/Outcome"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { FitnessCheckFailed, settingSuffix } from "./FitnessCheckFailed.ts"

/** What the check connects to. */
export interface Options {
  readonly host: string
  readonly port: number
  /**
   * How long it may take until the connection stands. Default: {@link DEFAULT_LIMIT}. Seconds. Longer bears a slower network and a
   * longer restart of the platform; shorter finds a machine without a network sooner.
   */
  readonly limit?: number
  /** What to change for another limit, for the message: the name of a variable. Default: none. */
  readonly setting?: string
}

/** As in the described SDK. Seconds. */
export const DEFAULT_LIMIT = 5

/** The wait between two attempts. */
const RETRY_DELAY = "200 millis"

/** One attempt; why it failed, or nothing. `node:net` is fetched here, so that importing this file does not load it. */
const attempt = (host: string, port: number): Effect.Effect<string | undefined> =>
  Effect.callback((resume) => {
    const socket = process.getBuiltinModule("node:net").connect({ host, port })
    socket.on("connect", () => {
      socket.destroy()
      resume(Effect.succeed(undefined))
    })
    socket.on("error", (error: NodeJS.ErrnoException) => resume(Effect.succeed(error.code ?? messageOf(error))))
    return Effect.sync(() => void socket.destroy())
  })

/** Fails when no connection stood within the limit. */
export const check = Effect.fnUntraced(function*({ host, limit = DEFAULT_LIMIT, port, setting }: Options) {
  let why = "no answer"
  const connected = Effect.gen(function*() {
    for (;;) {
      const failure = yield* attempt(host, port)
      if (failure === undefined) return
      if (failure !== why) {
        yield* Effect.logDebug(`The platform at ${host}:${port} takes no connection yet: ${failure}. Trying on.`)
      }
      why = failure
      yield* Effect.sleep(RETRY_DELAY)
    }
  })
  yield* Effect.timeoutOrElse(connected, {
    duration: `${limit} seconds`,
    orElse: () =>
      new FitnessCheckFailed({
        check: "network",
        message: `no connection to the platform at ${host}:${port} within ${limit} s${settingSuffix(setting)}: ${why}`
      })
  })
})

/** Adds the check `network`. */
export const layer = (options: Options): Layer.Layer<never, never, FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf("network", check(options))
