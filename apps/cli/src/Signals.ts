/**
 * Shutdown of a long-running command.
 *
 * The first SIGTERM, SIGINT or SIGHUP closes everything in order, with exit code 0; so does the exit of the package manager that started the
 * process (see `PackageManagerWatch`). A second SIGTERM or SIGINT ends the process and its workers immediately, with {@link FORCED_EXIT_CODE}.
 */
import { FORCED_EXIT_CODE } from "@stint/pool-process/ProcessPool"
import * as Cause from "effect/Cause"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Runtime from "effect/Runtime"
import process from "node:process"
import { isUsageError, USAGE_EXIT_CODE } from "./output/ErrorOutput.ts"
import * as PackageManagerWatch from "./PackageManagerWatch.ts"

/**
 * A signal that arrives within this time after the first one counts as the same signal. One Ctrl-C may arrive twice: from the terminal, and
 * from a package manager that forwards it. Milliseconds.
 */
const SAME_SIGNAL_MILLIS = 300

/**
 * After SIGHUP, the terminal no longer exists. Writes to it fail, and shells may send the signal again; neither may end the process before it
 * has shut down.
 */
const outliveTerminal = () => {
  process.on("SIGHUP", () => {})
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})
}

const awaitSignal: Effect.Effect<string> = Effect.callback((resume) => {
  const onSignal = (signal: NodeJS.Signals) => {
    if (signal === "SIGHUP") outliveTerminal()
    resume(Effect.succeed(signal))
  }
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.once(signal, onSignal)
  return Effect.sync(() => {
    for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.off(signal, onSignal)
  })
})

const awaitStop = Effect.raceFirst(
  awaitSignal,
  Effect.as(PackageManagerWatch.awaitExit, "The package manager that started Stint has exited")
)

const exitOnNextSignal = Effect.sync(() => {
  const from = performance.now() + SAME_SIGNAL_MILLIS
  const onSignal = () => {
    if (performance.now() < from) return
    process.stderr.write("Stopped without waiting. Running jobs return to the queue when the platform starts again.\n")
    process.exit(FORCED_EXIT_CODE)
  }
  process.on("SIGTERM", onSignal)
  process.on("SIGINT", onSignal)
})

/**
 * Runs a layer until a signal arrives, then closes it. The layer runs in its own fiber, because the runtime interrupts the main fiber on the
 * same signal, before the layer has closed.
 */
export const runUntilSignal = Effect.fnUntraced(function*<A, E, R>(layer: Layer.Layer<A, E, R>) {
  const lifetime = Effect.scopedWith((scope) =>
    Effect.gen(function*() {
      const interrupted = yield* Effect.forkIn(awaitStop, scope)
      yield* Effect.raceFirst(Layer.buildWithScope(layer, scope), Fiber.join(interrupted))
      const reason = yield* Fiber.join(interrupted)
      yield* exitOnNextSignal
      yield* Console.error(
        `${reason}: no new jobs are started; waiting for running jobs to finish. Press Ctrl-C again to stop immediately.`
      )
    })
  )
  const fiber = yield* Effect.forkDetach(lifetime)
  yield* Fiber.join(fiber)
  yield* Effect.sync(() => {
    process.exitCode = 0
  })
}, Effect.uninterruptible)

/**
 * The exit code of the process: `process.exitCode` when a signal shut the command down in order, {@link USAGE_EXIT_CODE} for an invalid command
 * line, or else Effect's default.
 */
export const teardown: Runtime.Teardown = (exit, onExit) => {
  if (Exit.isSuccess(exit)) return onExit(0)
  if (Cause.hasInterruptsOnly(exit.cause)) return onExit(typeof process.exitCode === "number" ? process.exitCode : 130)
  return isUsageError(Cause.squash(exit.cause)) ? onExit(USAGE_EXIT_CODE) : Runtime.defaultTeardown(exit, onExit)
}
