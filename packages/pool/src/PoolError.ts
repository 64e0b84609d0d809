/**
 * The error for a worker that cannot be started, with a tagged reason.
 */
import * as Schema from "effect/Schema"

/** The program could not be started: no such file, not executable, no such directory. */
export class SpawnFailed extends Schema.TaggedError<SpawnFailed>()("SpawnFailed", {
  /** Path of the file or program. */
  path: Schema.String,
  /** The problem, without a full stop: "there is no such file". */
  problem: Schema.String,
  /** The remedy, as a sentence. */
  hint: Schema.String
}) {}

/**
 * No capacity for another worker: no process, memory or machine is available. The worker itself is not at fault, so its state is shown as
 * throttled (docs/spec/endpoints.md#worker-states) and its start is retried.
 */
export class NoCapacity extends Schema.TaggedError<NoCapacity>()("NoCapacity", {
  /** The missing resource, without a full stop. */
  problem: Schema.String,
  /** Workers of the same endpoint, without which there would be room. Absent if there is none even without them, or if it is unknown. */
  blockedBy: Schema.optionalKey(Schema.Array(Schema.String))
}) {}

/** A variable of the endpoint refers to a secret that does not exist. */
export class SecretMissing extends Schema.TaggedError<SecretMissing>()("SecretMissing", {
  variable: Schema.String,
  secret: Schema.String
}) {}

/** The model of the endpoint cannot be used. */
export class ModelMissing extends Schema.TaggedError<ModelMissing>()("ModelMissing", {
  /** The problem and the remedy, as sentences. */
  problem: Schema.String
}) {}

/** A volume of the endpoint cannot be used. */
export class VolumeMissing extends Schema.TaggedError<VolumeMissing>()("VolumeMissing", {
  /** The volume's name, or a folder. */
  volume: Schema.String,
  /** The problem, without a full stop. */
  problem: Schema.String,
  /** The remedy, as a sentence. */
  hint: Schema.String
}) {}

/** The pool does not support this source. */
export class Unsupported extends Schema.TaggedError<Unsupported>()("Unsupported", {
  /** `type` of the endpoint's source. */
  source: Schema.String
}) {}

/** The pool itself does not work: a folder is not writable, or an engine does not respond. */
export class PoolUnavailable extends Schema.TaggedError<PoolUnavailable>()("PoolUnavailable", {
  /** The problem, without a full stop. */
  problem: Schema.String,
  /** The remedy, as a sentence. */
  hint: Schema.String
}) {}

export class PoolError extends Schema.TaggedError<PoolError>()("PoolError", {
  reason: Schema.Union([SpawnFailed, NoCapacity, SecretMissing, ModelMissing, VolumeMissing, Unsupported, PoolUnavailable])
}) {
  override get message(): string {
    const reason = this.reason
    switch (reason._tag) {
      case "SpawnFailed":
        return `${reason.path} cannot be started: ${reason.problem}. ${reason.hint}`
      case "NoCapacity":
        return `There is no capacity for another worker: ${reason.problem}.`
      case "SecretMissing":
        return `The variable ${reason.variable} needs the secret "${reason.secret}", which does not exist. Set it: ` +
          `stint secrets set ${reason.secret}`
      case "ModelMissing":
        return reason.problem
      case "VolumeMissing":
        return `The volume "${reason.volume}" cannot be used: ${reason.problem}. ${reason.hint}`
      case "Unsupported":
        return `This platform has no pool that starts workers of source type "${reason.source}". Use another source, or start workers elsewhere ` +
          `by themselves.`
      case "PoolUnavailable":
        return `No worker can be started: ${reason.problem}. ${reason.hint}`
    }
  }
}
