/**
 * Shutdown of a long-running command. The first SIGTERM or SIGINT closes everything in order, with exit code 0. A second one ends the process
 * immediately.
 */
import * as Cause from "effect/Cause"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Runtime from "effect/Runtime"
import process from "node:process"

const awaitSignal: Effect.Effect<NodeJS.Signals> = Effect.callback((resume) => {
  const onSignal = (signal: NodeJS.Signals) => resume(Effect.succeed(signal))
  process.once("SIGTERM", onSignal)
  process.once("SIGINT", onSignal)
  return Effect.sync(() => {
    process.off("SIGTERM", onSignal)
    process.off("SIGINT", onSignal)
  })
})

const exitOnNextSignal = Effect.sync(() => {
  const onSignal = () => {
    process.stderr.write("Stopped without waiting. Running jobs return to the queue when the platform starts again.\n")
    process.exit(130)
  }
  process.once("SIGTERM", onSignal)
  process.once("SIGINT", onSignal)
})

/**
 * Runs a layer until SIGTERM or SIGINT arrives, then closes it. The layer runs in its own fiber, because the runtime interrupts the main fiber on
 * the same signal, before the layer has closed.
 */
export const runUntilSignal = Effect.fnUntraced(function*<A, E, R>(layer: Layer.Layer<A, E, R>) {
  const lifetime = Effect.scopedWith((scope) =>
    Effect.gen(function*() {
      const interrupted = yield* Effect.forkIn(awaitSignal, scope)
      yield* Effect.raceFirst(Layer.buildWithScope(layer, scope), Fiber.join(interrupted))
      const signal = yield* Fiber.join(interrupted)
      yield* Console.error(
        `${signal}: no new jobs are started; waiting for running jobs to finish. Press Ctrl-C again to stop immediately.`
      )
      yield* exitOnNextSignal
    })
  )
  const fiber = yield* Effect.forkDetach(lifetime)
  yield* Fiber.join(fiber)
  yield* Effect.sync(() => {
    process.exitCode = 0
  })
}, Effect.uninterruptible)

/** The exit code of the process: `process.exitCode` when a signal shut the command down in order, or else Effect's default. */
export const teardown: Runtime.Teardown = (exit, onExit) =>
  Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)
    ? onExit(typeof process.exitCode === "number" ? process.exitCode : 130)
    : Runtime.defaultTeardown(exit, onExit)
