/**
 * Runs a definition: walks through its nodes, skips what is recorded, and records what it does.
 *
 * ```
 *   node        recorded as                                         resumes by
 *   step        step | failed; failed at ~1, ~2 per attempt         its output; otherwise the next attempt
 *   run         spawn, then the platform's end; ~2 per attempt      waiting for the end
 *   forEach     choice (the list), and each item as [n]             its items
 *   all         its parts                                           its parts
 *   branch      choice, and the nodes of the chosen part            the recorded choice
 *   sleep       sleep, then the platform's end                      waiting for the end
 *   waitFor     wait, then the platform's event or end              waiting for either
 *   stream      choice (the chunks before it), step                 the chunks that callers do not have
 *
 *   any         failed at ~0: a failure that is recorded nowhere else, before the compensations, and at an event that does not fit
 *
 *   a node fails permanently, or a caller cancels a run with compensations --> Compensation, then the run ends
 * ```
 */
import type { CurrentJob, ReceivedJob } from "@stint/worker/CurrentJob"
import * as Outcome from "@stint/worker/Outcome"
import { JobLost } from "@stint/worker/ResultDelivery"
import type { Emit, Runnable } from "@stint/worker/Runnable"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Activation, NodeFailed } from "./Activation.ts"
import * as ActivationModule from "./Activation.ts"
import { failureIn, keepFailure, undoAll } from "./Compensation.ts"
import type { Definition } from "./Definition.ts"
import { refOf } from "./Graph.ts"
import { Journal } from "./Journal.ts"
import { runNodes } from "./PipelineNodes.ts"

/** How a run ended. */
type Ending =
  | { readonly _tag: "Done"; readonly output: unknown }
  | { readonly _tag: "Failed"; readonly failure: NodeFailed }
  | { readonly _tag: "Cancelled" }

const failedAt = (path: string, message: string): Ending => ({ _tag: "Failed", failure: { _tag: "NodeFailed", path, message } })

/**
 * When a caller retries a run, the journal no longer contains its failure. A run that has undone a step cannot continue, because the step is recorded
 * as done. It undoes the rest.
 */
const FAILED_BEFORE: NodeFailed = {
  _tag: "NodeFailed",
  path: "",
  message: "The run has failed and was undone, so it cannot continue. Start a new run."
}

/** Ends a run that is done. It fails if the platform does not accept its output. */
const finishDone = (
  activation: Activation,
  ending: Extract<Ending, { readonly _tag: "Done" }>
): Effect.Effect<Ending, ActivationModule.Dropped> =>
  activation.finish({ output: ending.output }).pipe(
    Effect.as<Ending>(ending),
    Effect.catchTag("JournalRefused", ({ message }) => Effect.succeed(failedAt("end", message)))
  )

const decodeWith = (schema: Schema.ConstraintCodec<unknown, unknown>) =>
  Schema.decodeUnknownEffect(Schema.toCodecJson(schema), { errors: "all" })

const forward = (
  activation: Activation,
  definition: Definition,
  input: unknown
): Effect.Effect<Ending, ActivationModule.Dropped, unknown> => {
  /** How the run ended according to the journal. The first failure or cancellation counts, even if a worker was killed in between. */
  const recorded = (): Ending | undefined => {
    const failure = failureIn(activation, definition.nodes)
    if (failure !== undefined) return { _tag: "Failed", failure }
    return activation.cancelledBy() === undefined ? undefined : { _tag: "Cancelled" }
  }
  const before = recorded()
  if (before !== undefined) return Effect.succeed(before)
  if (activation.isUndoing() || activation.entries().some(({ kind }) => kind === "undo")) {
    return Effect.succeed({ _tag: "Failed", failure: FAILED_BEFORE })
  }
  return activation.guard(runNodes(activation, definition.nodes, {
    prefix: "",
    value: input,
    results: { input },
    isComputed: false
  }, true)).pipe(
    Effect.map(({ value }): Ending => ({ _tag: "Done", output: value })),
    // A cancellation ends the nodes' waits, so they fail too.
    Effect.catchIf(
      (error) => error._tag === "NodeFailed",
      (failure) => Effect.succeed<Ending>(recorded() ?? { _tag: "Failed", failure })
    ),
    Effect.catchIf((error) => error._tag === "Cancelled", () => Effect.succeed<Ending>(recorded() ?? { _tag: "Cancelled" }))
  )
}

/**
 * The program of a run. Ends with the result if the runtime delivers it. Otherwise ends with `JobLost`: the journal has ended the run, or another
 * activation continues it.
 */
export const runDefinition = (definition: Definition): Runnable<unknown>["run"] => {
  const decode = decodeWith(definition.input)
  const encode = Schema.encodeUnknownEffect(Schema.toCodecJson(definition.output))

  const encodeOutput = (ending: Ending): Effect.Effect<Ending, never, unknown> =>
    ending._tag === "Done"
      ? Effect.match(encode(ending.output), {
        onFailure: ({ message }): Ending => failedAt("end", `The output does not fit: ${message}`),
        onSuccess: (output): Ending => ({ _tag: "Done", output })
      })
      : Effect.succeed(ending)

  const activate = Effect.fnUntraced(function*(job: ReceivedJob, emit: Emit | undefined) {
    const ref = refOf(definition)
    const activation = yield* ActivationModule.make(
      job,
      ref,
      (chunk) => emit === undefined ? Effect.void : Effect.orDie(emit(chunk))
    )
    const input = yield* Effect.result(decode(job.input))
    const ended = yield* Result.isFailure(input)
      ? Effect.succeed(failedAt("input", `The input does not fit: ${input.failure.message}`))
      : Effect.flatMap(forward(activation, definition, input.success), encodeOutput)
    const ending = ended._tag === "Done" ? yield* finishDone(activation, ended) : ended
    if (ending._tag === "Done") return Outcome.fromReturned(ending.output)
    const isUnread = ending._tag === "Failed" && activation.find(ending.failure.path)?.kind === "event"
    const keeps = (ref.undo || isUnread) && ending._tag === "Failed" && ending.failure !== FAILED_BEFORE
    const notUndone = yield* activation.guardUndo(Effect.andThen(
      keeps ? keepFailure(activation, definition.nodes, ending.failure) : Effect.void,
      undoAll(activation, definition.nodes)
    ))
    const reason = ending._tag === "Cancelled" ? "The run was cancelled." : describe(ending.failure)
    if (ending._tag === "Cancelled" && notUndone === undefined) {
      yield* ActivationModule.accepted(activation.finish({ cancelled: true }))
      return Outcome.failed(reason)
    }
    const isUndone = activation.entries().some(({ kind }) => kind === "undo")
    const remedy = isUnread && !isUndone ? sendAgain(definition.name, job.id, ending.failure.path) : undefined
    const more = notUndone ?? remedy
    const error = more === undefined ? reason : `${reason}${reason.endsWith(".") ? "" : "."} ${more}`
    yield* ActivationModule.accepted(activation.finish({ error }))
    return Outcome.failed(error)
  })

  return (job, emit) =>
    runsAnywhere(Effect.gen(function*() {
      const journal = yield* Journal
      const outcome = yield* Effect.scoped(activate(job, emit)).pipe(
        Effect.catchTag("Dropped", ({ cause, state }) =>
          Effect.andThen(
            state === "held" || state === "lost"
              ? Effect.logWarning(`This worker does not continue the run (${state})${cause === undefined ? "" : `: ${cause}`}.`)
              : Effect.void,
            Effect.fail(new JobLost({ detail: state }))
          ))
      )
      return journal.finishes ? yield* new JobLost({ detail: "The journal has ended the run." }) : outcome
    }))
}

const describe = ({ message, path }: NodeFailed): string =>
  path === "input" || path === "" ? message : `The step "${path}" failed: ${message}`

/** What to do after an event whose data does not fit. */
const sendAgain = (pipeline: string, run: string, path: string): string =>
  `Run \`stint jobs retry ${pipeline} ${run} --from ${path}\`, and send the event again.`

/** The services of the steps are in the pipeline's type, and not in the definition's. */
function runsAnywhere<A, E>(self: Effect.Effect<A, E, unknown>): Effect.Effect<A, E, CurrentJob>
function runsAnywhere<A, E>(self: Effect.Effect<A, E, unknown>): Effect.Effect<A, E, unknown> {
  return self
}
