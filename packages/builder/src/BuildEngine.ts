/**
 * The container engine, as builds use it. An application provides it, because the engine's client is part of the container pool.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { BuildFailed } from "./BuildError.ts"

/** The program that builds images. */
export interface EngineProgram {
  /** `docker` or `podman`. */
  readonly command: string
  /** Options before the subcommand, such as the engine's address. */
  readonly args: ReadonlyArray<string>
  /** Options for the subcommand `build`. */
  readonly buildArgs: ReadonlyArray<string>
  readonly env: Readonly<Record<string, string>>
}

/** An image in the engine. */
export interface EngineImage {
  /** `sha256:...` */
  readonly id: string
  /** `name@sha256:...` for each registry that has the image. */
  readonly digests: ReadonlyArray<string>
  /** `linux/amd64` */
  readonly platform: string
}

export class BuildEngine extends Context.Service<BuildEngine, {
  /** Fails when no engine responds, or when its program is not installed. */
  readonly program: Effect.Effect<EngineProgram, BuildFailed>
  /** Undefined for an unknown image. */
  readonly image: (reference: string) => Effect.Effect<EngineImage | undefined, BuildFailed>
  /** Pushes `name:tag` to its registry, and returns its digest in the registry: `sha256:...` */
  readonly push: (reference: string) => Effect.Effect<string, BuildFailed>
  /** The platform of the images that this machine runs, such as `linux/amd64`. */
  readonly machine: string
}>()("@stint/builder/BuildEngine") {}
