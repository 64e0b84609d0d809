/**
 * How a long-running command ends: the first SIGTERM or SIGINT closes everything in order and the exit code is 0; a second one ends the
 * process at once.
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
    process.stderr.write("Stopped at once. Running jobs go back to the queue when the platform starts again.\n")
    process.exit(130)
  }
  process.once("SIGTERM", onSignal)
  process.once("SIGINT", onSignal)
})

/**
 * Keeps a layer until a signal comes, then closes it. The layer lives in a fiber of its own: the runtime interrupts the main fiber on that
 * same signal, and closing takes its time.
 */
export const runUntilSignal = Effect.fnUntraced(function*<A, E, R>(layer: Layer.Layer<A, E, R>) {
  const life = Effect.scopedWith((scope) =>
    Effect.gen(function*() {
      const interrupted = yield* Effect.forkIn(awaitSignal, scope)
      yield* Effect.raceFirst(Layer.buildWithScope(layer, scope), Fiber.join(interrupted))
      const signal = yield* Fiber.join(interrupted)
      yield* Console.error(`${signal}: no more jobs are handed out; waiting for the running ones. Again to stop at once.`)
      yield* exitOnNextSignal
    })
  )
  const fiber = yield* Effect.forkDetach(life)
  yield* Fiber.join(fiber)
  yield* Effect.sync(() => {
    process.exitCode = 0
  })
}, Effect.uninterruptible)

/** The exit code of a program: what it set itself, where it was ended by a signal and closed in order. */
export const teardown: Runtime.Teardown = (exit, onExit) =>
  Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause)
    ? onExit(typeof process.exitCode === "number" ? process.exitCode : 130)
    : Runtime.defaultTeardown(exit, onExit)
