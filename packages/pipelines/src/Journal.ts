/**
 * The journal of runs, as the interpreter sees it: one call that writes to a run and reads from it.
 *
 * ```
 *   interpreter --RunWrite--> Journal --RunAnswer--> interpreter
 *                              |
 *          layer               `-- the platform's run-journal, all runs of this worker in one request (JournalHttp)
 *          PipelineTest, local `-- in memory (JournalMemory)
 * ```
 */
import type { PipelineGraph, RunAnswer, RunWrite } from "@stint/contract/RunJournal"
import type { ReceivedJob } from "@stint/worker/CurrentJob"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** What identifies a pipeline's nodes to the platform. */
export interface DefinitionRef {
  /** SHA-256 of the graph. */
  readonly hash: string
  readonly graph: PipelineGraph
  /** Whether any node has an `undo`. */
  readonly undo: boolean
}

/** The platform does not accept what a run writes, for example because it is too large. No part of the write is stored. */
export class JournalRefused extends Schema.TaggedError<JournalRefused>()("JournalRefused", {
  message: Schema.String
}) {}

/** The worker shuts down, and the platform has not responded within the time that a shutdown leaves. Another worker continues the run. */
export class PlatformGone extends Schema.TaggedError<PlatformGone>()("PlatformGone", {
  message: Schema.String
}) {}

export class Journal extends Context.Service<Journal, {
  /**
   * Writes to a run; the records are durable when the effect completes. With `hold`, a run with `park` is not parked at once: the response waits up to
   * `PARK_DELAY_MILLIS` for an entry. Retries until the platform responds.
   */
  readonly write: (
    write: RunWrite,
    definition: DefinitionRef,
    hold?: boolean
  ) => Effect.Effect<RunAnswer, JournalRefused | PlatformGone>
  /** Announces the definition of this worker to the platform, so that runs that wait for it continue. Undefined: no platform. */
  readonly announce: ((definition: DefinitionRef) => Effect.Effect<void>) | undefined
  /**
   * Sends one chunk of the run's stream, with its number from 1. Undefined: the runtime that runs the pipeline sends the chunks.
   */
  readonly chunk: ((job: ReceivedJob, chunk: unknown, number: number) => Effect.Effect<void, PlatformGone>) | undefined
  /** Whether a write with `finish` delivers the result of the run. Otherwise the runtime delivers it. */
  readonly finishes: boolean
}>()("@stint/pipelines/Journal") {}
