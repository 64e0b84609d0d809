/**
 * What all nodes of a store must agree on, for example where their large payloads are. A platform whose store only it uses does not provide this
 * service, and keeps such records in its data folder.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { StoreError } from "../StoreError.ts"

export class SharedSettings extends Context.Service<SharedSettings, {
  readonly get: (name: string) => Effect.Effect<string | undefined, StoreError>
  /** Stores a value unless the setting has one. Returns the stored value: of several nodes, the first one decides. */
  readonly settle: (name: string, value: string) => Effect.Effect<string, StoreError>
}>()("@stint/store/SharedSettings") {}
