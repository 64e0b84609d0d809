/**
 * Freezes the code of handlers, so that a release always runs the code with which it was deployed, even if the files change.
 *
 * Frozen code is stored by its hash: freezing the same code again stores nothing. A pool that starts handlers implements this service and
 * runs `StartRequest.code`.
 */
import type { EndpointSource } from "@stint/contract/Endpoint"
import type { ReleaseCode } from "@stint/contract/Release"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"

/** The code cannot be frozen. */
export class CodeError extends Schema.TaggedError<CodeError>()("CodeError", {
  /** The handler's file. */
  file: Schema.String,
  /** The problem, without a full stop. */
  problem: Schema.String,
  /** The remedy, as a sentence. */
  hint: Schema.String
}) {
  override get message(): string {
    return `${this.file} cannot be deployed: ${this.problem}. ${this.hint}`
  }
}

export class CodeArtifacts extends Context.Service<CodeArtifacts, {
  /** Stores the current code of a source. Returns undefined if the source has no code that the platform could store. */
  readonly freeze: (source: EndpointSource) => Effect.Effect<ReleaseCode | undefined, CodeError>
  /**
   * Removes all stored code except the code with these hashes. Requires the backup's lock, because a running backup may contain a release that
   * refers to the code.
   */
  readonly retain: (hashes: ReadonlySet<string>) => Effect.Effect<void>
}>()("@stint/pool/CodeArtifacts") {}

/** Stores no code: handlers always run from their files. For platforms that start no handlers, and for tests. */
export const layerNone: Layer.Layer<CodeArtifacts> = Layer.succeed(
  CodeArtifacts,
  CodeArtifacts.of({ freeze: () => Effect.succeed(undefined), retain: () => Effect.void })
)
