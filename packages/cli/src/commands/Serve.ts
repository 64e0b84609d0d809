/**
 * `stint serve`: the platform of one machine.
 */
import { EndpointStore } from "@stint/queue/EndpointStore"
import { JobQueue } from "@stint/queue/JobQueue"
import { PublicAddress } from "@stint/server/PublicAddress"
import { Command, Flag } from "effect/cli"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as AdminKey from "../AdminKey.ts"
import * as Banner from "../Banner.ts"
import * as EndpointsFile from "../EndpointsFile.ts"
import * as LogFormat from "../LogFormat.ts"
import * as Platform from "../Platform.ts"
import * as PlatformConfig from "../PlatformConfig.ts"
import { sampleOf } from "../Sample.ts"
import { runUntilSignal } from "../Signals.ts"

export const command = Command.make(
  "serve",
  {
    config: Flag.String("config").pipe(
      Flag.withDescription("A file with `export default defineConfig({ endpoints })`"),
      Flag.optional
    )
  },
  Effect.fnUntraced(function*({ config }) {
    const path = yield* Path.Path
    const settings = yield* PlatformConfig.load
    const dataDir = path.resolve(settings.dataDir)
    const kept = yield* AdminKey.isKept(settings)
    const apiKey = yield* AdminKey.obtain(settings)
    const endpoints = Option.isSome(config) ? yield* EndpointsFile.load(config.value) : []

    const announce = Layer.effectDiscard(Effect.gen(function*() {
      const queue = yield* JobQueue
      const { baseUrl } = yield* PublicAddress
      const all = yield* (yield* EndpointStore).list
      yield* Console.log(Banner.text({
        baseUrl,
        apiKey,
        apiKeySource: Option.isSome(settings.apiKey)
          ? "from STINT_API_KEY"
          : `${kept ? "kept" : "new, kept"} in ${path.join(dataDir, "api-key")}`,
        durability: queue.durability,
        dataDir,
        endpoints: all,
        sample: yield* sampleOf(all)
      }))
    }))

    yield* runUntilSignal(announce.pipe(Layer.provide(Platform.layer({
      host: settings.host,
      port: settings.port,
      publicUrl: settings.publicUrl,
      apiKey,
      shutdownGrace: settings.shutdownGrace,
      store: { durability: settings.durability },
      dataDir,
      endpoints
    }))))
  }, Effect.provide(LogFormat.layer))
).pipe(
  Command.withDescription("Run the platform on this machine"),
  Command.withExamples([
    { command: "stint serve", description: "Serve the endpoints that were created before" },
    { command: "stint serve --config stint.config.ts", description: "Serve the endpoints of a file" }
  ])
)
