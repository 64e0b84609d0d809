/**
 * The runs of a pipeline as callers see them (docs/spec/pipelines.md#steps). The wire messages of workers are in `RunJournal.ts`.
 */
import * as Schema from "effect/Schema"
import { JobStatus } from "../jobs/Job.ts"
import { DefinitionHash, EventName, MAX_RUN_MILLIS, RunPhase, StepInput } from "../workers/RunJournal.ts"

/** How long an event is kept for a run that does not wait for it yet, in milliseconds: seven days. */
export const DEFAULT_EVENT_MILLIS = 7 * 24 * 60 * 60 * 1000

/** The maximum length of an event's id, in characters. */
const MAX_EVENT_ID = 255

/** The body of `events`. */
export const SendEvent = Schema.Struct({
  /** The name that the pipeline waits for. */
  name: EventName.check(Schema.isMinLength(1)),
  /** The key of the wait, such as an order number. Default: "". */
  key: Schema.optionalKey(EventName),
  /** Any JSON: the output of the wait. Default: null. */
  data: Schema.optionalKey(Schema.Json),
  /** The sender's id of the event. A second event with the same id is not delivered. */
  id: Schema.optionalKey(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(MAX_EVENT_ID))),
  /** How long the event is kept when no run waits for it, in milliseconds. Default: seven days. */
  ttlMs: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: MAX_RUN_MILLIS })))
})

export type SendEvent = typeof SendEvent.Type

/** The response of `events`. */
export const EventReceipt = Schema.Struct({
  /** The run that received the event. `null`: it is kept until a run waits for it. */
  delivered: Schema.NullOr(Schema.String),
  /** The platform has already received an event with this id, and ignored this one. */
  duplicate: Schema.optionalKey(Schema.Literal(true))
})
export type EventReceipt = typeof EventReceipt.Type

/**
 * The input of a step. `from`: it is the outputs of these steps; empty: the input of the run. `value`: it was computed, and recorded with the step.
 * `text`: the beginning of the JSON text of a computed input that was too long to record.
 */
const StepInputView = Schema.Union([Schema.Struct({ from: Schema.Array(Schema.String) }), ...StepInput.members])

/** The maximum number of attempts that a step lists. */
export const MAX_ATTEMPTS = 100

/** One attempt of a step, or of the job that it runs. */
export const StepAttempt = Schema.Struct({
  /** From 1. */
  attempt: Schema.Int,
  state: Schema.Literals(["open", "completed", "failed", "timed-out", "cancelled"]),
  startedAt: Schema.optionalKey(Schema.Int),
  endedAt: Schema.optionalKey(Schema.Int),
  /** The job of this attempt. */
  job: Schema.optionalKey(Schema.String),
  error: Schema.optionalKey(Schema.String)
})
export type StepAttempt = typeof StepAttempt.Type

/**
 * What a run recorded at a path, with all attempts.
 *
 * | `kind` | what it records |
 * |---|---|
 * | `step` | a function of the pipeline |
 * | `run` | a job of another endpoint |
 * | `sleep` | a time |
 * | `waitFor` | an event |
 * | `choice` | the branch that was taken, or the items of a list |
 * | `undo` | a compensation |
 */
export const RunStep = Schema.Struct({
  path: Schema.String,
  kind: Schema.Literals(["step", "run", "sleep", "waitFor", "choice", "undo"]),
  state: Schema.Literals(["open", "completed", "failed", "timed-out", "cancelled", "undone"]),
  /**
   * When its first attempt began, in milliseconds since 1970. Steps are recorded when they end: this is that time without the time that the worker
   * reports for the attempt. Absent for choices, and for steps of workers that report no times.
   */
  startedAt: Schema.optionalKey(Schema.Int),
  endedAt: Schema.optionalKey(Schema.Int),
  /** The job of the last attempt of a `run`, and its endpoint. The job's status contains the input and the output. */
  job: Schema.optionalKey(Schema.String),
  endpoint: Schema.optionalKey(Schema.String),
  /** The event of a `waitFor`. */
  event: Schema.optionalKey(Schema.Struct({ name: Schema.String, key: Schema.String })),
  /** When the platform ends the path, if nothing ends it earlier. */
  until: Schema.optionalKey(Schema.Int),
  /** What a `step` or an `undo` received. */
  input: Schema.optionalKey(StepInputView),
  /** The output of a step, the data of an event, or the choice. */
  output: Schema.optionalKey(Schema.Json),
  /** Why it failed. */
  error: Schema.optionalKey(Schema.String),
  /** The attempts in order, the newest {@link MAX_ATTEMPTS}. Absent if there is only one and it is not followed by another. */
  attempts: Schema.optionalKey(Schema.Array(StepAttempt)),
  /** Between two attempts: when the next one begins, in milliseconds since 1970. */
  nextAttemptAt: Schema.optionalKey(Schema.Int)
})
export type RunStep = typeof RunStep.Type

/** The steps of a run, in the order in which they began. */
export const RunSteps = Schema.Struct({
  run: Schema.String,
  status: JobStatus,
  phase: RunPhase,
  /** The hash of the definition that the run follows. */
  definition: DefinitionHash,
  /** Why the run waits for a worker with another definition. */
  held: Schema.optionalKey(Schema.String),
  steps: Schema.Array(RunStep),
  /** There are more steps: pass this number as `after`. */
  next: Schema.optionalKey(Schema.Int)
})
export type RunSteps = typeof RunSteps.Type
