/**
 * The errors of builds.
 */
import * as Schema from "effect/Schema"

/** A build failed, or this platform cannot build. */
export class BuildFailed extends Schema.TaggedError<BuildFailed>()("BuildFailed", {
  /** What is wrong, as a sentence. */
  problem: Schema.String,
  /** What to do, as a sentence. */
  hint: Schema.String
}) {
  override get message(): string {
    return this.hint === "" ? this.problem : `${this.problem} ${this.hint}`
  }
}

/** The endpoint has no such build, or no build settings. */
export class BuildMissing extends Schema.TaggedError<BuildMissing>()("BuildMissing", {
  endpoint: Schema.String,
  /** Undefined: the endpoint has no build settings. */
  number: Schema.UndefinedOr(Schema.Int)
}) {}

/** Fails with what is wrong and what to do, as sentences. Default for `hint`: none. */
export const failed = (problem: string, hint = ""): BuildFailed => new BuildFailed({ problem, hint })
