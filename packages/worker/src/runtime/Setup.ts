/**
 * The setup of a worker: what it does once before it takes its first job, such as loading a model
 * (docs/spec/worker-lifecycle.md#setup).
 *
 * ```
 *   fitness checks --> setup --ok--> the first take
 *                       |  one ping when it begins: status=setup, setup_timeout
 *                       |
 *                       +--fails, or exceeds its limit--> ERROR line --> one ping: status=unhealthy --> process ends with 1
 * ```
 *
 * The ping tells the platform how long the setup may take: without it, the platform kills a worker that has sent no request within 7 minutes. The
 * setup begins when the first ping has ended, and {@link NOTICE_MILLIS} later at the latest: a setup that blocks its thread would keep the ping
 * from being sent. The ping is repeated once a second until the platform responds.
 */
import { MAX_SETUP_MILLIS, SETUP_CHECK } from "@stint/contract/WorkerProtocol"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import { traceback } from "../handlers/ThrownValue.ts"
import { JobSource } from "../transport/JobSource.ts"
import { withSpan } from "./Spans.ts"
import * as StartStep from "./StartStep.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

export { MAX_SETUP_MILLIS } from "@stint/contract/WorkerProtocol"

/**
 * The default limit: the time that a platform gives a worker for its whole start. A shorter limit reports a hung setup to waiting jobs sooner; a
 * longer one lets large models load from slow disks.
 */
const DEFAULT_TIMEOUT: Duration.Duration = Duration.minutes(7)

/** The longest time that the setup waits for the response to its notice, which takes a millisecond or two on a single machine. */
const NOTICE_MILLIS = 100

/** A setup as a layer, which provides the services that the handler needs from it. */
export interface Setup<R, Needs> {
  readonly layer: Layer.Layer<R, unknown, Needs>
  /** How long it may take. The variable `SETUP_TIMEOUT` overrides it. Default: {@link DEFAULT_TIMEOUT}. */
  readonly timeout?: Duration.Input | undefined
}

/** The argument of a setup function. */
export interface SetupContext {
  /** Aborted when the setup exceeds its limit, and when the worker is stopped during the setup. */
  readonly signal: AbortSignal
}

/** A setup from a function. A returned promise is awaited; its value is ignored. */
export const fromFunction = (run: (context: SetupContext) => unknown): Layer.Layer<never> =>
  Layer.effectDiscard(Effect.promise(async (signal) => {
    await run({ signal })
  }))

const secondsText = (millis: number): string => `${Math.round(millis / 100) / 10} s`

/**
 * Tells the platform that the setup has begun, and its limit. `tried`: completed when the first attempt has ended, with or without success. A late
 * notice has no effect, so only the retries end with the setup.
 */
const announce = (limit: number, isRunning: () => boolean, tried: Deferred.Deferred<void>) =>
  Effect.gen(function*() {
    const { identity } = yield* WorkerConfig
    const source = yield* JobSource
    yield* source.ping({ runpod_version: identity.version, status: "setup", setup_timeout: limit }).pipe(
      Effect.ensuring(Deferred.succeed(tried, undefined)),
      Effect.retry({
        schedule: Schedule.spaced("1 second"),
        while: ({ reason }) => reason._tag === "Unreachable" && isRunning()
      }),
      // A platform that does not support the notice may reject it. The setup does not depend on it.
      Effect.catch((error) => Effect.logDebug(`The platform did not accept the notice that the setup began: ${error.message}.`))
    )
  })

/** Completes when the setup has finished. Its services are available to the layers that it is provided to. */
export const layer = <R, Needs>(setup: Setup<R, Needs>): Layer.Layer<R, never, Needs | JobSource | WorkerConfig> =>
  Layer.fromBuild((memoMap, scope) =>
    Effect.gen(function*() {
      const { endpoint, platform, setupTimeout } = yield* WorkerConfig
      const wanted = setupTimeout ?? Duration.toMillis(Duration.fromInputUnsafe(setup.timeout ?? DEFAULT_TIMEOUT))
      const limit = Math.min(wanted, MAX_SETUP_MILLIS)
      let isRunning = true
      if (platform !== undefined) {
        const tried = yield* Deferred.make<void>()
        yield* Effect.forkIn(announce(limit, () => isRunning, tried), scope)
        yield* Effect.timeoutOption(Deferred.await(tried), NOTICE_MILLIS)
      }
      const began = yield* Clock.currentTimeMillis
      const name = endpoint === undefined ? "setup" : `setup ${endpoint}`
      const exit = yield* StartStep.awaitExit(withSpan(name)(Layer.buildWithMemoMap(setup.layer, memoMap, scope)), limit)
      const took = (yield* Clock.currentTimeMillis) - began
      isRunning = false
      const ended = Option.getOrUndefined(exit)
      if (ended !== undefined && Exit.isSuccess(ended)) {
        yield* Effect.logDebug(`The setup took ${took} ms.`)
        return ended.value
      }
      const cause = ended?.cause
      const reason = cause === undefined ? `it did not end within ${secondsText(limit)}` : StartStep.reasonOf(cause)
      const text = cause === undefined || Cause.hasInterruptsOnly(cause) ? reason : traceback(StartStep.thrownBy(cause))
      yield* Effect.logError(`The setup failed after ${took} ms: ${text}`)
      yield* Effect.logError("This worker takes no jobs and exits with code 1, because its setup failed.")
      return yield* StartStep.end(SETUP_CHECK, reason)
    })
  )
