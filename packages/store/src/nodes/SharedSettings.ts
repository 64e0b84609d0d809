/**
 * Settings that all nodes of a store must share, for example where large payloads are stored. A platform that is the only user of its store does not
 * provide this service, and keeps such records in its data folder.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { StoreError } from "../StoreError.ts"

export class SharedSettings extends Context.Service<SharedSettings, {
  readonly get: (name: string) => Effect.Effect<string | undefined, StoreError>
  /** Stores a value unless the setting has one. Returns the stored value. If several nodes store one, the first wins. */
  readonly settle: (name: string, value: string) => Effect.Effect<string, StoreError>
}>()("@stint/store/SharedSettings") {}
