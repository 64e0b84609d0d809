/**
 * The builds of the platform, with the engine that the container pool uses. The first build loads the engine's client.
 */
import { failed } from "@stint/builder/BuildError"
import * as BuildQueue from "@stint/builder/BuildQueue"
import * as Effect from "effect/Effect"
import { join } from "node:path"
import type { BuildSettings } from "../config/BuildConfig.ts"
import type { EngineSettings } from "../config/EngineConfig.ts"

/** The service. Undefined settings have their default values. */
export const layer = (dataDir: string, settings: BuildSettings | undefined, engine: EngineSettings | undefined) =>
  BuildQueue.layer({
    engine: Effect.map(
      Effect.promise(() => import("@stint/pool-container")),
      ({ ImageBuilds }) => {
        const { image, machine, program, push } = ImageBuilds.make({ socket: engine?.socket, credentials: engine?.credentials })
        const inWords = Effect.mapError(({ hint, problem }: { readonly problem: string; readonly hint: string }) =>
          failed(problem, hint)
        )
        return {
          machine,
          program: inWords(program),
          image: (reference) => inWords(image(reference)),
          push: (reference) => inWords(push(reference))
        }
      }
    ),
    folder: join(dataDir, "builds"),
    registry: settings?.registry,
    options: settings?.options ?? [],
    localFolders: settings?.localFolders ?? []
  })
