/**
 * Checks that the platform can be reached (docs/spec/fitness-checks.md#automatic-checks).
 *
 * It opens a TCP connection to the platform and closes it. RunPod's SDK connects to 8.8.8.8:53 instead. That proves little about the
 * platform, and it fails on machines without internet access, which can serve jobs well.
 *
 * A refused connection is retried until the time limit, because a restarting platform is no reason to end a worker.
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import { messageOf } from "@stint/worker/ThrownValue"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { FitnessCheckFailed, settingSuffix } from "./FitnessCheckFailed.ts"

/** Options for the check. */
export interface Options {
  readonly host: string
  readonly port: number
  /**
   * The time limit for the connection. Default: {@link DEFAULT_LIMIT}. Seconds. A higher limit tolerates a slower network and a longer
   * restart of the platform; a lower limit detects a machine without a network sooner.
   */
  readonly limit?: number
  /** The variable that sets the limit, for the message. Default: none. */
  readonly setting?: string
}

/** As in RunPod's SDK. Seconds. */
const DEFAULT_LIMIT = 5

/** The delay between two attempts. */
const RETRY_DELAY = "200 millis"

/** Makes one attempt and returns the error, or undefined on success. `node:net` is loaded here to keep the import of this file cheap. */
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

/** Fails when no connection was established within the limit. */
export const check = Effect.fnUntraced(function*({ host, limit = DEFAULT_LIMIT, port, setting }: Options) {
  let why = "no answer"
  const connected = Effect.gen(function*() {
    for (;;) {
      const failure = yield* attempt(host, port)
      if (failure === undefined) return
      if (failure !== why) {
        yield* Effect.logDebug(`The platform at ${host}:${port} does not accept connections yet (${failure}). Retrying.`)
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

/**
 * Adds the check `network`.
 *
 * @public
 */
export const layer = (options: Options): Layer.Layer<never, never, FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf("network", check(options))
