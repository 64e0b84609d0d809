/**
 * Composes the platform of `stint serve` from its settings, and runs it until a signal. Only that command loads this module: it is two thirds of
 * all modules.
 */
import * as WorkerCgroups from "@stint/pool-process/WorkerCgroups"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as AdminKey from "../config/AdminKey.ts"
import * as AlertConfig from "../config/AlertConfig.ts"
import * as DatabaseConfig from "../config/DatabaseConfig.ts"
import * as DataFolder from "../config/DataFolder.ts"
import * as PlatformConfig from "../config/PlatformConfig.ts"
import * as SecretsKeyConfig from "../config/SecretsKeyConfig.ts"
import * as WorkerConfig from "../config/WorkerConfig.ts"
import * as WorkerSecret from "../config/WorkerSecret.ts"
import * as LogFormat from "../output/LogFormat.ts"
import * as Project from "../plugins/Project.ts"
import { runUntilSignal } from "../Signals.ts"
import * as Platform from "./Platform.ts"
import * as SafetyWarnings from "./SafetyWarnings.ts"
import * as StartupBanner from "./StartupBanner.ts"

interface Flags {
  /** The file with the endpoints. */
  readonly config: Option.Option<string>
  /** The address of the database. */
  readonly database: Option.Option<string>
}

/** Runs the platform, or one node of it. Ends after a signal, when running jobs have finished or their grace period is over. */
export const serve = Effect.fnUntraced(function*({ config, database: flag }: Flags) {
  const settings = yield* PlatformConfig.load
  const database = yield* DatabaseConfig.resolve(flag, settings)
  const dataDir = yield* DataFolder.open(settings.dataDir)
  const admin = yield* AdminKey.obtain(settings, dataDir)
  const secretsKey = yield* SecretsKeyConfig.resolveFor(settings.secretsKey, dataDir)
  const isShared = database !== undefined && secretsKey.write === undefined
  const sharedSecret = isShared ? WorkerSecret.shared(yield* Effect.orElseSucceed(secretsKey.read, () => [])) : undefined
  const workerSecret = sharedSecret ?? (yield* WorkerSecret.obtain(dataDir))
  const workers = yield* WorkerConfig.resolveFor(settings.workers, dataDir)
  const { endpoints, schedules } = Option.isSome(config)
    ? yield* Project.load(config.value)
    : { endpoints: [], schedules: undefined }
  yield* SafetyWarnings.log({
    host: settings.host,
    publicUrl: Option.getOrUndefined(settings.publicUrl),
    workerUser: workers.user === undefined ? "platform" : "first" in workers.user ? "per-endpoint" : "shared"
  }, WorkerCgroups.support())
  yield* runUntilSignal(
    StartupBanner.layer({
      place: admin.place,
      dataDir,
      database: database === undefined ? undefined : DatabaseConfig.nameOf(database)
    }).pipe(
      Layer.merge(AdminKey.layerWatch(admin)),
      Layer.provide(Platform.layer({
        settings,
        secrets: { adminDigest: admin.digest, workerSecret },
        secretsKey,
        hasSharedKeys: isShared && Option.isSome(settings.apiKey),
        store: database === undefined ? { durability: settings.durability, space: settings.disk } : { database },
        dataDir,
        workers,
        builds: settings.builds,
        engine: settings.engine,
        ...(settings.kubernetes === undefined ? {} : { kubernetes: settings.kubernetes }),
        models: settings.models,
        alerts: yield* AlertConfig.complete(settings.alerts),
        volumes: settings.volumes,
        endpoints,
        schedules
      }))
    )
  )
}, Effect.provide(LogFormat.layer))
