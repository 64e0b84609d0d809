/**
 * Copies frozen code (`CodeArtifacts`) between machines. A pool that runs frozen code implements this service.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"

/** The files of frozen code, by name. */
export type CodeFiles = Readonly<Record<string, Uint8Array>>

export class CodeTransfer extends Context.Service<CodeTransfer, {
  /** Whether the code is stored here. */
  readonly has: (hash: string) => Effect.Effect<boolean>
  /** The files; undefined if the code is not stored here. */
  readonly read: (hash: string) => Effect.Effect<CodeFiles | undefined>
  /** Stores files. Returns a problem, without a full stop, if they do not have this hash or cannot be stored. */
  readonly write: (hash: string, files: CodeFiles) => Effect.Effect<string | undefined>
}>()("@stint/pool/CodeTransfer") {}
