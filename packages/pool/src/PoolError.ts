/**
 * Why a worker cannot be started, as one error with a reason.
 */
import * as Schema from "effect/Schema"

/** The program could not be started: no such file, not executable, no such directory. */
export class SpawnFailed extends Schema.TaggedError<SpawnFailed>()("SpawnFailed", {
  /** What was tried: the path of the file or the program. */
  path: Schema.String,
  /** What was wrong with it, without a full stop: "there is no such file". */
  problem: Schema.String,
  /** What to do about it, as a sentence. */
  hint: Schema.String
}) {}

/**
 * There is no room for another worker: out of processes, memory or machines. Nothing is wrong with the worker itself, so it is shown as
 * throttled (docs/spec/endpoints.md#worker-states) and tried again.
 */
export class NoCapacity extends Schema.TaggedError<NoCapacity>()("NoCapacity", {
  /** What there is too little of, without a full stop. */
  problem: Schema.String
}) {}

/** The pool cannot start workers of this source. */
export class Unsupported extends Schema.TaggedError<Unsupported>()("Unsupported", {
  /** The `type` of the endpoint's source. */
  source: Schema.String
}) {}

/** The pool itself cannot work here, whatever the worker: a folder that cannot be written, an engine that does not answer. */
export class PoolUnavailable extends Schema.TaggedError<PoolUnavailable>()("PoolUnavailable", {
  /** What is in the way, without a full stop. */
  problem: Schema.String,
  /** What to do about it, as a sentence. */
  hint: Schema.String
}) {}

export class PoolError extends Schema.TaggedError<PoolError>()("PoolError", {
  reason: Schema.Union([SpawnFailed, NoCapacity, Unsupported, PoolUnavailable])
}) {
  override get message(): string {
    const reason = this.reason
    switch (reason._tag) {
      case "SpawnFailed":
        return `${reason.path} cannot be started: ${reason.problem}. ${reason.hint}`
      case "NoCapacity":
        return `There is no room for another worker: ${reason.problem}.`
      case "Unsupported":
        return `This platform has no pool that starts workers of source type "${reason.source}". Use another source, or let workers join ` +
          `by themselves.`
      case "PoolUnavailable":
        return `No worker can be started: ${reason.problem}. ${reason.hint}`
    }
  }
}
