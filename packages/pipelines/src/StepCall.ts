/**
 * Calls the code of a step: one attempt, with its context, its time limit and its signal.
 */
import { CurrentStep } from "@stint/worker/CurrentStep"
import * as RunningJob from "@stint/worker/RunningJob"
import { withSpan } from "@stint/worker/Spans"
import { messageOf, traceback } from "@stint/worker/ThrownValue"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type { Results, StepRun } from "./Definition.ts"
import type { StepContext } from "./StepContext.ts"

/** An attempt failed. `message`: for the journal and the caller. */
export interface AttemptFailed {
  readonly _tag: "AttemptFailed"
  readonly message: string
}

const isPromise = (value: unknown): value is PromiseLike<unknown> =>
  Predicate.hasProperty(value, "then") && typeof value.then === "function"

/** Waits for what a step returned. A promise cannot be interrupted; its step receives the signal instead. */
const settle = (value: unknown): Effect.Effect<unknown, unknown, unknown> =>
  Effect.isEffect(value)
    ? value
    : isPromise(value)
    ? Effect.callback<unknown>((resume) => {
      value.then(
        (result) => resume(Effect.succeed(result)),
        (thrown: unknown) => resume(Effect.die(thrown))
      )
    })
    : Effect.succeed(value)

/** Also returns how long the effect ran, in whole milliseconds. */
export const timed = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<{ readonly result: A; readonly ms: number }, E, R> =>
  Effect.flatMap(
    Clock.currentTimeNanos,
    (began) =>
      Effect.flatMap(effect, (result) =>
        Effect.map(Clock.currentTimeNanos, (ended) => ({ result, ms: Math.max(0, Math.round(Number(ended - began) / 1e6)) })))
  )

/** What identifies an attempt. */
export interface AttemptOf {
  readonly run: string
  readonly path: string
  readonly attempt: number
  readonly timeout: Duration.Input | undefined
}

/** Runs `use` with a context whose signal is aborted when `use` ends early. Reports a failure with the message of its cause. */
export const attempt = <A, R>(
  { attempt, path, run, timeout }: AttemptOf,
  use: (context: StepContext) => Effect.Effect<A, unknown, R>
): Effect.Effect<A, AttemptFailed, R> =>
  Effect.suspend(() => {
    const controller = new AbortController()
    const context: StepContext = { run, path, attempt, idempotencyKey: `${run}/${path}`, signal: controller.signal }
    const failed = (message: string): AttemptFailed => ({ _tag: "AttemptFailed", message })
    const called = Effect.onInterrupt(
      Effect.suspend(() => use(context)),
      () => Effect.sync(() => controller.abort(new DOMException(`The step ${path} was stopped.`, "AbortError")))
    )
    const limited: Effect.Effect<A, unknown, R> = timeout === undefined ? called : Effect.timeoutOrElse(called, {
      duration: timeout,
      orElse: () => Effect.fail(failed(`It took longer than ${Duration.format(Duration.fromInputUnsafe(timeout))}.`))
    })
    return limited.pipe(
      Effect.catchCause((cause): Effect.Effect<never, AttemptFailed> => {
        if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
        const thrown = Cause.squash(cause)
        if (isFailed(thrown)) return Effect.fail(thrown)
        return Effect.andThen(
          Effect.logError(`Attempt ${attempt} of the step failed: ${traceback(thrown)}`),
          Effect.fail(failed(messageOf(thrown)))
        )
      }),
      withSpan(`step ${path}`),
      Effect.provideService(CurrentStep, path)
    )
  })

const isFailed = (value: unknown): value is AttemptFailed => Predicate.isObject(value) && value["_tag"] === "AttemptFailed"

/** Does nothing: an interrupted step is not waited for. */
const abandon = () => undefined

/** Calls plain code of a step, so that what it prints belongs to its job and its step. */
export const running = ({ signal }: Pick<StepContext, "signal">): Effect.Effect<<A>(evaluate: () => A) => A> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.succeed((evaluate) => RunningJob.within({ context, signal, abandon }, evaluate))
  )

/** Calls a step function and waits for its result. Resources in the effect's scope are released when the attempt ends. */
export const call =
  (run: StepRun, value: unknown, results: Results) => (context: StepContext): Effect.Effect<unknown, unknown, unknown> =>
    Effect.scoped(Effect.flatMap(running(context), (within) => settle(within(() => run(value, results, context)))))
