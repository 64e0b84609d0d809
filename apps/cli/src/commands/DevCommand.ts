/**
 * `stint dev` runs the platform and one worker for one handler file. It reloads the handler whenever the file, or a file next to it,
 * changes.
 *
 * Jobs are in memory and are discarded when the command ends. Running jobs finish on the worker that started them; the next job runs the new
 * code.
 */
import { EndpointSpec } from "@stint/contract/Endpoint"
import { EndpointStore } from "@stint/store/EndpointStore"
import { Argument, Command, Flag } from "effect/cli"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { CliFailure } from "../CliFailure.ts"
import * as AdminKey from "../config/AdminKey.ts"
import * as DataFolder from "../config/DataFolder.ts"
import * as PlatformConfig from "../config/PlatformConfig.ts"
import * as WorkerSecret from "../config/WorkerSecret.ts"
import * as LogFormat from "../output/LogFormat.ts"
import * as Platform from "../platform/Platform.ts"
import * as StartupBanner from "../platform/StartupBanner.ts"
import { runUntilSignal } from "../Signals.ts"

/** Changes within this time of each other count as one change, because editors write a file in several steps. */
const DEBOUNCE = Duration.millis(150)

/** Paths whose changes do not restart the worker. */
const IGNORED = /(^|[/\\])(node_modules|\.git|\.stint|dist)([/\\]|$)|~$|\.sw[a-z]$|\.log$/

/** The endpoint's name for a file: the folder's name for `handler.ts` and `index.ts`, or else the file's name. */
const endpointNameOf = (file: string, path: Path.Path): string => {
  const base = path.basename(file).replace(/\.[^.]+$/, "")
  const name = base === "handler" || base === "index" ? path.basename(path.dirname(file)) : base
  return name.replaceAll(/[^A-Za-z0-9_-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 63) || "dev"
}

const decodeSpec = Schema.decodeUnknownEffect(EndpointSpec)

export const command = Command.make(
  "dev",
  {
    handler: Argument.String("handler").pipe(Argument.withDescription("A file that calls serverless.start")),
    name: Flag.String("name").pipe(
      Flag.withDescription("Name of the endpoint (default: the name of the file or its folder)"),
      Flag.optional
    )
  },
  Effect.fnUntraced(
    function*({ handler, name }) {
      const fs = yield* FileSystem.FileSystem
      const path = yield* Path.Path
      const file = path.resolve(handler)
      if (!(yield* Effect.orElseSucceed(fs.exists(file), () => false))) {
        return yield* new CliFailure({
          message: `There is no file ${file}.`,
          hint: "Give the path of a file that calls serverless.start, for example: stint dev ./handler.ts"
        })
      }
      const settings = yield* PlatformConfig.load
      const directory = path.dirname(file)
      // The stored key, because `stint run` in another terminal reads the same key when it runs in this folder.
      const admin = yield* AdminKey.obtain(settings, yield* DataFolder.open(settings.dataDir))

      /** The endpoint. Each revision changes its environment, which makes the autoscaler replace the workers. */
      const specOf = (revision: number) =>
        Effect.mapError(
          decodeSpec({
            id: Option.getOrElse(name, () => endpointNameOf(file, path)),
            source: { type: "handler", file },
            workers: { min: 1, max: 1 },
            env: { STINT_DEV_REVISION: String(revision) }
          }),
          (error) => new CliFailure({ message: "The endpoint cannot be created.", hint: error.message })
        )
      const first = yield* specOf(0)

      const reload = Layer.effectDiscard(Effect.gen(function*() {
        const store = yield* EndpointStore
        let revision = 0
        yield* fs.watch(directory, { recursive: true }).pipe(
          Stream.filter((event) => !IGNORED.test(event.path)),
          Stream.debounce(DEBOUNCE),
          Stream.runForEach((event) =>
            Effect.gen(function*() {
              yield* Effect.logInfo(
                `${path.relative(directory, path.resolve(directory, event.path))} changed; the next job runs the new code.`
              )
              const known = yield* store.get(first.id)
              if (known !== undefined) yield* store.put({ ...(yield* specOf(++revision)), createdAt: known.createdAt })
            })
          ),
          Effect.catchCause((cause) =>
            Effect.logError("Watching for changes failed. Restart `stint dev` to reload your handler.", cause)
          ),
          Effect.forkScoped
        )
      }))

      const announcement = Layer.effectDiscard(Console.log(`  Watching           ${directory}\n`)).pipe(
        Layer.provide(StartupBanner.layer({
          place: admin.place,
          dataDir: undefined,
          sample: { endpoint: first.id, input: { key: "value" } }
        }))
      )

      const dataDir = yield* fs.makeTempDirectoryScoped({ prefix: "stint-dev-" })
      yield* runUntilSignal(
        Layer.mergeAll(announcement, reload, AdminKey.layerWatch(admin)).pipe(Layer.provide(Platform.layer({
          // A shorter grace period, because a developer who presses Ctrl-C does not want to wait for the full one.
          settings: { ...settings, shutdownGrace: Duration.min(settings.shutdownGrace, Duration.seconds(5)) },
          secrets: { adminDigest: admin.digest, workerSecret: yield* WorkerSecret.generate },
          store: "memory",
          dataDir,
          // The developer's own handler in the developer's own shell, so it sees what `node handler.ts` would see.
          workers: { inherit: ["*"], user: undefined, cacheDir: dataDir },
          endpoints: [first]
        })))
      )
    },
    Effect.scoped,
    Effect.provide(LogFormat.layer)
  )
).pipe(
  Command.withDescription("Run one handler on a platform of its own and reload it on change"),
  Command.withExamples([{ command: "stint dev ./handler.ts", description: "Serve it at /v2/{folder name}" }])
)
