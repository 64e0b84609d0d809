/**
 * The errors of the container engine.
 */
import * as Schema from "effect/Schema"

/** The engine cannot be reached: no socket, nothing listens on it, or the connection ended before the response. */
export class EngineUnreachable extends Schema.TaggedError<EngineUnreachable>()("EngineUnreachable", {
  /** The problem, without a full stop. */
  problem: Schema.String
}) {
  override get message(): string {
    return `The container engine cannot be reached: ${this.problem}.`
  }
}

/** The engine responded with an error. */
export class EngineRefused extends Schema.TaggedError<EngineRefused>()("EngineRefused", {
  /** The HTTP status; 0 when the engine reported the error in the middle of a successful response. */
  status: Schema.Int,
  /** The engine's message, without a full stop. */
  problem: Schema.String
}) {
  override get message(): string {
    return `The container engine refused the request: ${this.problem}.`
  }
}

export type EngineError = EngineUnreachable | EngineRefused

/** Whether the engine does not know the container or image. */
export const isNotFound = (error: EngineError): boolean => error._tag === "EngineRefused" && error.status === 404
