/**
 * The cache's folder cannot be read or written.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

export class CacheError extends Schema.TaggedError<CacheError>()("CacheError", {
  path: Schema.String,
  /** The operating system's error. */
  detail: Schema.String,
  /** Whether the disk is full. */
  isFull: Schema.Boolean
}) {
  override get message(): string {
    return `${this.path} cannot be used (${this.detail})`
  }
}

const errorAt = (path: string) => (cause: unknown): CacheError => {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined
  return new CacheError({
    path,
    detail: cause instanceof Error ? cause.message : String(cause),
    isFull: code === "ENOSPC" || code === "EDQUOT"
  })
}

/** Runs an operation on the cache's files. `path` is named in the error. */
export const attempt = <A>(path: string, run: () => Promise<A>): Effect.Effect<A, CacheError> =>
  Effect.tryPromise({ try: run, catch: errorAt(path) })

/** Like {@link attempt}, for a synchronous operation. */
export const attemptSync = <A>(path: string, run: () => A): Effect.Effect<A, CacheError> =>
  Effect.try({ try: run, catch: errorAt(path) })
