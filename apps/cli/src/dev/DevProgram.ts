/**
 * The program of `stint dev`. It runs handlers on its own platform, and reloads each of them when one of its sources changes.
 *
 * Jobs are in memory and are discarded when the command ends. Running jobs finish on the worker that started them; the next job runs the new
 * code. It never uses a platform that is already running on this machine, because that platform has durable jobs and its operator's endpoints.
 */
import { EndpointSpec, secretsIn } from "@stint/contract/Endpoint"
import * as StintPackages from "@stint/pool-process/StintPackages"
import { Secrets } from "@stint/secrets/Secrets"
import { PublicAddress } from "@stint/server/PublicAddress"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Clock from "effect/Clock"
import * as Config from "effect/Config"
import * as Console from "effect/Console"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import { join } from "node:path"
import { CliFailure } from "../CliFailure.ts"
import * as AdminKey from "../config/AdminKey.ts"
import * as DataFolder from "../config/DataFolder.ts"
import * as EndpointSpecs from "../config/EndpointSpecs.ts"
import * as PlatformConfig from "../config/PlatformConfig.ts"
import * as WorkerSecret from "../config/WorkerSecret.ts"
import * as LogFormat from "../output/LogFormat.ts"
import * as ContributedSchedules from "../platform/ContributedSchedules.ts"
import * as Platform from "../platform/Platform.ts"
import * as StartupBanner from "../platform/StartupBanner.ts"
import * as Project from "../plugins/Project.ts"
import { runUntilSignal } from "../Signals.ts"
import * as DevEndpoint from "./DevEndpoint.ts"
import * as DevOutput from "./DevOutput.ts"
import * as FreePort from "./FreePort.ts"

/** The file names of the default configuration. */
const CONFIGS = ["stint.config.ts", "stint.config.mts", "stint.config.js", "stint.config.mjs"]

/** The endpoint's name for a file: the folder's name for `handler.ts` and `index.ts`, or else the file's name. */
const endpointNameOf = (file: string, path: Path.Path): string => {
  const base = path.basename(file).replace(/\.[^.]+$/, "")
  const name = base === "handler" || base === "index" ? path.basename(path.dirname(file)) : base
  return name.replaceAll(/[^A-Za-z0-9_-]+/g, "-").replace(/^[^A-Za-z0-9]+/, "").slice(0, 63) || "dev"
}

const decodeSpec = Schema.decodeUnknownEffect(EndpointSpec)

/** The endpoint of one handler file. */
const endpointOf = Effect.fnUntraced(function*(handler: string, name: Option.Option<string>) {
  const path = yield* Path.Path
  const file = path.resolve(handler)
  const spec = yield* Effect.mapError(
    decodeSpec({
      id: Option.getOrElse(name, () => endpointNameOf(file, path)),
      source: { type: "handler", file },
      workers: { min: 1, max: 1 }
    }),
    (error) => new CliFailure({ message: "The endpoint cannot be created.", hint: error.message })
  )
  yield* EndpointSpecs.requireHandler(spec)
  return spec
})

/** The endpoints of the configuration in this folder, and the schedules of its packages. */
const configured = Effect.fnUntraced(function*(config: Option.Option<string>) {
  const fs = yield* FileSystem.FileSystem
  if (Option.isSome(config)) return yield* Project.load(config.value)
  for (const name of CONFIGS) {
    if (yield* Effect.orElseSucceed(fs.exists(name), () => false)) return yield* Project.load(name)
  }
  return yield* new CliFailure({
    message: `There is no ${CONFIGS[0]} in ${process.cwd()}.`,
    hint: "Name a handler file (stint dev ./handler.ts), or create a project with one: stint init my-app"
  })
})

/** The settings, with a free port unless `PORT` names one. */
const loadSettings = Effect.gen(function*() {
  const settings = yield* PlatformConfig.load
  const port = yield* Effect.orElseSucceed(Config.option(Config.String("PORT")), () => Option.none<string>())
  return Option.isSome(port) ? settings : { ...settings, port: yield* FreePort.from(settings.port, settings.host) }
})

/** The variable that contains the token for the model hub. The hub's own client reads the same one. */
const HUB_TOKEN = "HF_TOKEN"

/** Takes the value of each secret from the variable of this shell that has the same name as the endpoint's variable. */
const layerSecrets = (specs: ReadonlyArray<EndpointSpec>) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const secrets = yield* Secrets
    for (
      const [variable, secret] of specs.flatMap(({ env, modelToken }) => [
        ...secretsIn(env),
        ...(modelToken === undefined ? [] : [[HUB_TOKEN, modelToken.secret] as const])
      ])
    ) {
      const value = yield* Effect.orElseSucceed(Config.option(Config.Redacted(variable)), () => Option.none())
      if (Option.isSome(value)) yield* Effect.orDie(secrets.set(secret, value.value))
    }
  }))

/** Sets the schedules that packages contribute. They fire while the command runs. */
const layerSchedules = (schedules: Project.Project["schedules"]) =>
  ContributedSchedules.layer(
    schedules,
    ({ endpoint, name, spec: { at, cron } }) =>
      DevOutput.print(
        `${endpoint}  schedule ${name} (${
          cron ?? new Date(at ?? 0).toISOString()
        }). To run it now: stint schedules run ${endpoint} ${name}`
      )
  )

/** Text after the banner. */
const layerHints = Layer.effectDiscard(Effect.gen(function*() {
  const { baseUrl } = yield* PublicAddress
  if ((yield* PlatformConfig.clientUrl) !== baseUrl) {
    yield* Console.log(`  In another terminal, for the \`stint\` commands: export STINT_URL=${baseUrl}\n`)
  }
  yield* Console.log("  Save a file to reload its handler. Ctrl-C stops.\n")
}))

interface Flags {
  /** A handler file. Default: the configuration's endpoints. */
  readonly handler: Option.Option<string>
  readonly config: Option.Option<string>
  /** The name of the handler file's endpoint. */
  readonly name: Option.Option<string>
}

/** Serves the handlers until a signal. Fails when the flags contradict each other, or when there is no configuration. */
export const dev = Effect.fnUntraced(
  function*({ config, handler, name }: Flags) {
    if (Option.isSome(handler) ? Option.isSome(config) : Option.isSome(name)) {
      return yield* new CliFailure({
        message: Option.isSome(handler) ? "Give a handler file or --config, not both." : "--name needs a handler file.",
        hint: "For example: stint dev ./handler.ts --name greet"
      })
    }
    const { endpoints: configuredSpecs, schedules }: Project.Project = Option.isSome(handler)
      ? { endpoints: [yield* endpointOf(handler.value, name)], schedules: [] }
      : yield* configured(config)
    // All workers run on this machine, whatever its labels are.
    const specs = configuredSpecs.map(({ placement: _, ...spec }): EndpointSpec => spec)
    const fs = yield* FileSystem.FileSystem
    const settings = yield* loadSettings
    // Uses the stored key, because `stint run` in another terminal reads the same key when it runs in this folder.
    const admin = yield* AdminKey.obtain(settings, yield* DataFolder.open(settings.dataDir))
    const dataDir = yield* fs.makeTempDirectoryScoped({ prefix: "stint-dev-" })
    const importers = StintPackages.importersFrom(import.meta.url)

    /** Programs other than handlers are not reloaded. */
    const endpoints = Layer.effectDiscard(Effect.gen(function*() {
      const store = yield* EndpointStore
      yield* Effect.forEach(specs, (spec) => {
        const { source } = spec
        return source.type === "handler"
          ? DevEndpoint.start({ spec: { ...spec, source }, directory: join(dataDir, "bundles"), importers })
          : Effect.flatMap(Clock.currentTimeMillis, (createdAt) => store.put({ ...spec, createdAt }))
      }, { concurrency: "unbounded", discard: true })
    }))

    yield* runUntilSignal(
      Layer.mergeAll(layerHints, AdminKey.layerWatch(admin)).pipe(
        Layer.provideMerge(StartupBanner.layer({
          place: admin.place,
          dataDir: undefined,
          showsUrls: true,
          ...(specs[0] === undefined ? {} : { sample: { endpoint: specs[0].id, input: { key: "value" } } })
        })),
        Layer.provideMerge(layerSchedules(schedules)),
        Layer.provideMerge(endpoints.pipe(Layer.provideMerge(layerSecrets(specs)))),
        Layer.provide(Platform.layer({
          // A shorter grace period, because a developer who presses Ctrl-C does not want to wait for the full one.
          settings: {
            ...settings,
            shutdownDelay: Duration.zero,
            shutdownGrace: Duration.min(settings.shutdownGrace, Duration.seconds(5))
          },
          secrets: { adminDigest: admin.digest, workerSecret: yield* WorkerSecret.generate },
          store: "memory",
          dataDir,
          // The handler runs in the developer's own shell, so it sees the same environment as with `node handler.ts`.
          workers: { inherit: ["*"], user: undefined, spare: 0, cacheDir: dataDir },
          models: settings.models,
          volumes: settings.volumes,
          endpoints: [],
          observer: DevOutput.observer
        }))
      )
    )
  },
  Effect.scoped,
  Effect.provide(LogFormat.layer)
)
