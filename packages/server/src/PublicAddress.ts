/**
 * Under which address workers and callers reach this platform.
 */
import * as Context from "effect/Context"

export class PublicAddress extends Context.Service<PublicAddress, {
  /** Without a trailing slash: `http://127.0.0.1:4600`. */
  readonly baseUrl: string
}>()("@stint/server/PublicAddress") {}
