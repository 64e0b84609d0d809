/**
 * The platform as one layer: composes stores, server, pool and autoscaler.
 *
 * ```
 *   SqliteJobStore | MemoryJobStore | PostgresJobStore (loaded for --database)
 *        JobQueue + BatchQueue + WorkerRegistry        JobTimers, BatchTimers, ScheduleRunner, BulkRunner
 *             ProcessPool + ContainerPool (loaded for the first container) or KubernetesPool (STINT_KUBERNETES)
 *                  AgentPool: these, or the machines of agents (stint agent)
 *                  Server (HTTP)
 *                       Autoscaler --> pool --> workers
 *        WebhookSender --> GuardedHttp --> receivers
 * ```
 *
 * Layers close in the reverse order of their construction. On shutdown the autoscaler drains the workers while the server still accepts
 * their results; then the server ends its long polls and closes; then the store closes.
 */
import * as Autoscaler from "@stint/autoscaler/Autoscaler"
import { WorkerConnection } from "@stint/autoscaler/WorkerConnection"
import * as Builds from "@stint/builder/Builds"
import type { EndpointSpec } from "@stint/contract/Endpoint"
import * as GuardedHttp from "@stint/http-guard/GuardedHttp"
import * as Resolver from "@stint/http-guard/Resolver"
import * as Metrics from "@stint/metrics"
import * as AgentPool from "@stint/pool-agent/AgentPool"
import type { KubernetesSettings } from "@stint/pool-kubernetes/KubernetesSettings"
import * as ProcessPool from "@stint/pool-process/ProcessPool"
import type { NamedVolumes } from "@stint/pool/NamedVolumes"
import * as BatchQueue from "@stint/queue/BatchQueue"
import * as BatchTimers from "@stint/queue/BatchTimers"
import * as Budgets from "@stint/queue/Budgets"
import * as BulkJobs from "@stint/queue/BulkJobs"
import * as BulkRunner from "@stint/queue/BulkRunner"
import * as JobLogs from "@stint/queue/JobLogs"
import * as JobQueue from "@stint/queue/JobQueue"
import * as JobTimers from "@stint/queue/JobTimers"
import * as PlatformEvents from "@stint/queue/PlatformEvents"
import * as RunQueue from "@stint/queue/RunQueue"
import * as ScheduleRunner from "@stint/queue/ScheduleRunner"
import * as Schedules from "@stint/queue/Schedules"
import * as StoreEvents from "@stint/queue/StoreEvents"
import * as TextIndexer from "@stint/queue/TextIndexer"
import * as UsageMeter from "@stint/queue/UsageMeter"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Releases from "@stint/releases/Releases"
import * as Secrets from "@stint/secrets/Secrets"
import * as SecretsKey from "@stint/secrets/SecretsKey"
import * as AccessKeys from "@stint/server/AccessKeys"
import * as AuditLog from "@stint/server/AuditLog"
import * as Cors from "@stint/server/Cors"
import * as Limits from "@stint/server/Limits"
import * as Pages from "@stint/server/Pages"
import { PublicAddress } from "@stint/server/PublicAddress"
import { Readiness } from "@stint/server/Readiness"
import * as Server from "@stint/server/Server"
import type { PostgresOpenError } from "@stint/store-postgres"
import * as Sqlite from "@stint/store-sqlite"
import type { SqliteOpenError } from "@stint/store-sqlite/SqliteOpenError"
import * as AuditStore from "@stint/store/AuditStore"
import * as BuildStore from "@stint/store/BuildStore"
import { LogLimits } from "@stint/store/JobLogStore"
import * as KeyStore from "@stint/store/KeyStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as PayloadMemoryBudget from "@stint/store/PayloadMemoryBudget"
import * as SecretStore from "@stint/store/SecretStore"
import type { StoreError } from "@stint/store/StoreError"
import { TextIndexSize } from "@stint/store/TextIndex"
import * as UsageStore from "@stint/store/UsageStore"
import * as WebhookAttemptStore from "@stint/store/WebhookAttemptStore"
import * as WebhookSecretStore from "@stint/store/WebhookSecretStore"
import * as EndpointCleanup from "@stint/webhooks/EndpointCleanup"
import * as WebhookRetention from "@stint/webhooks/WebhookRetention"
import * as WebhookSender from "@stint/webhooks/WebhookSender"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { identity } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import * as Semaphore from "effect/Semaphore"
import { join } from "node:path"
import { setFlagsFromString } from "node:v8"
import * as PlatformBackups from "../backup/PlatformBackups.ts"
import { CliFailure } from "../CliFailure.ts"
import type { BuildSettings } from "../config/BuildConfig.ts"
import type { EngineSettings } from "../config/EngineConfig.ts"
import type { ModelSettings } from "../config/ModelsConfig.ts"
import type { DiskSettings, PlatformConfig } from "../config/PlatformConfig.ts"
import * as SecretsKeyConfig from "../config/SecretsKeyConfig.ts"
import type { WorkerOptions } from "../config/WorkerConfig.ts"
import type { ScheduleContribution } from "../plugins/SchedulePlan.ts"
import * as AlertLayers from "./AlertLayers.ts"
import * as BuildLayers from "./BuildLayers.ts"
import * as ConfiguredEndpoints from "./ConfiguredEndpoints.ts"
import { consoleFolder } from "./ConsoleFolder.ts"
import * as ContributedSchedules from "./ContributedSchedules.ts"
import * as DatabaseStores from "./DatabaseStores.ts"
import * as JobEnds from "./JobEnds.ts"
import * as ModelCache from "./ModelCache.ts"
import * as OwnedEndpoints from "./OwnedEndpoints.ts"
import * as PayloadStores from "./PayloadStores.ts"
import type { Stores } from "./Stores.ts"
import * as Tracing from "./Tracing.ts"
import * as WorkerLogSink from "./WorkerLogSink.ts"
import * as WorkerPoolLayers from "./WorkerPoolLayers.ts"

/** Options of the platform. */
export interface PlatformOptions {
  readonly settings:
    & Pick<
      PlatformConfig,
      | "host"
      | "port"
      | "publicUrl"
      | "corsOrigins"
      | "shutdownDelay"
      | "shutdownGrace"
      | "webhooks"
      | "payloads"
      | "audit"
      | "usage"
      | "batches"
      | "logs"
      | "search"
    >
    & Partial<Pick<PlatformConfig, "traceUrl">>
  readonly secrets: AccessKeys.PlatformSecrets
  /** The key that encrypts the endpoints' secrets. Default: generated with the first secret, in `dataDir`, or in memory for an in-memory store. */
  readonly secretsKey?: SecretsKey.SecretsKey["Service"]
  /** Whether the operator has set the keys that all nodes of a database must share. Default: false. */
  readonly hasSharedKeys?: boolean
  /** `memory`: jobs are lost when the platform stops. `database`: the address of a PostgreSQL database. Otherwise SQLite. */
  readonly store:
    | "memory"
    | { readonly database: Redacted.Redacted }
    | { readonly durability: "D1" | "D2"; readonly space?: DiskSettings }
  /** The folder for the job store, the pool's records and the workers' compile cache. */
  readonly dataDir: string
  /** Default: workers run as the platform's user, inherit nothing beyond the default variables, and their caches are in `dataDir`. */
  readonly workers?: WorkerOptions
  /** Default: the usual sockets of Docker and Podman, and no mounted folders. Used for endpoints with the source `container`. */
  readonly engine?: EngineSettings
  /** With it, workers of endpoints with the source `container` are pods. Default: the engine runs them. */
  readonly kubernetes?: KubernetesSettings
  /** Default: images stay in the engine, and no repository on this machine may be built by its path. */
  readonly builds?: BuildSettings
  /** Default: no alerts. */
  readonly alerts?: Option.Option<AlertLayers.Options>
  /** Default: endpoints with a model start no workers. */
  readonly models?: ModelSettings
  /** Default: endpoints with volumes start no workers. */
  readonly volumes?: NamedVolumes
  /** Created or updated before the first request. */
  readonly endpoints: ReadonlyArray<EndpointSpec>
  /** The schedules that packages contribute. Undefined: unknown, because there is no configuration. */
  readonly schedules?: ReadonlyArray<ScheduleContribution> | undefined
  /** Default: the platform's log contains the workers' output, and the starts, exits and failures of workers. */
  readonly observer?: Observer
}

/** Shows jobs and workers instead of the platform's log, to which the autoscaler then writes only errors. */
export interface Observer {
  readonly attemptEnded: JobEnds.OnAttemptEnd
  readonly workerPrinted: WorkerLogSink.WriteLine
}

const layerRows = (
  { dataDir, store }: PlatformOptions,
  sweepLock: Semaphore.Semaphore
): Layer.Layer<Stores, SqliteOpenError | PostgresOpenError.PostgresOpenError | StoreError | CliFailure> =>
  store !== "memory" && "database" in store
    ? DatabaseStores.layer(store.database)
    : store === "memory"
    ? Layer.mergeAll(
      MemoryJobStore.layerWithEndpoints,
      KeyStore.layerMemory,
      SecretStore.layerMemory,
      AuditStore.layerMemory,
      UsageStore.layerMemory,
      BuildStore.layerMemory,
      WebhookSecretStore.layerMemory,
      WebhookAttemptStore.layerMemory
    )
    : PlatformBackups.layer({ dataDir, sweepLock }).pipe(
      Layer.provideMerge(
        Sqlite.layer({ file: join(dataDir, "stint.db"), durability: store.durability, space: store.space ?? {}, fullWal: true })
      )
    )

const layerObserved = (options: PlatformOptions, sweepLock: Semaphore.Semaphore) =>
  options.observer === undefined
    ? layerRows(options, sweepLock)
    : JobEnds.layer(options.observer.attemptEnded).pipe(Layer.provideMerge(layerRows(options, sweepLock)))

/** The endpoints' secrets, decrypted. */
const layerSecrets = ({ dataDir, secretsKey, store }: PlatformOptions) =>
  Secrets.layer.pipe(Layer.provide(
    secretsKey === undefined && store === "memory"
      ? SecretsKey.layerMemory
      : Layer.succeed(SecretsKey.SecretsKey, secretsKey ?? SecretsKeyConfig.generated(dataDir))
  ))

const layerBuilds = ({ builds, dataDir, engine, store }: PlatformOptions) =>
  store !== "memory" && "database" in store
    ? Layer.succeed(Builds.Builds, Builds.unavailable(DatabaseStores.noBuilds))
    : BuildLayers.layer(dataDir, builds, engine)

/** The models for endpoints that have one. */
const layerModels = ({ dataDir, models, workers }: PlatformOptions) =>
  models === undefined ? Layer.empty : ModelCache.layer(models, workers?.cacheDir ?? dataDir)

/** The stores, with a payload store if one is configured. */
const layerStores = (options: PlatformOptions, sweepLock: Semaphore.Semaphore) =>
  PayloadStores.layer(layerObserved(options, sweepLock), options.settings.payloads, {
    dataDir: options.dataDir,
    isPersistent: options.store !== "memory",
    sweepLock
  })

/** Counts usage, and rejects submissions beyond the budgets. */
const layerUsage = ({ usage: { budgets, prices, ...bounds } }: PlatformOptions["settings"]) =>
  Layer.merge(UsageMeter.layer(bounds), prices === undefined ? Layer.empty : Budgets.layer(prices, budgets))

/** Outbound requests of webhooks and alerts, through the address guard. */
const layerGuardedHttp = ({ allow, allowPrivate }: PlatformOptions["settings"]["webhooks"]) =>
  GuardedHttp.layerWith({ allow, allowPrivate }).pipe(Layer.provide(Resolver.layer), Layer.orDie)

/** Sends webhooks from the outbox, and deletes old delivery records. */
const layerWebhooks = ({ keep, timeout }: PlatformOptions["settings"]["webhooks"]) =>
  Layer.mergeAll(WebhookSender.layer({ timeout }), WebhookRetention.layer({ keep }), EndpointCleanup.layer)

/** Limits of bodies and batches, and of the memory they may use. */
const layerLimits = ({ batches, payloads: { location, memoryBytes, threshold: _, ...sizes } }: PlatformOptions["settings"]) =>
  Layer.merge(
    Layer.succeed(Limits.Limits, { ...Limits.defaults, ...sizes, ...batches, objectStore: Option.isSome(location) }),
    PayloadMemoryBudget.layer(memoryBytes)
  )

const layerPublicAddress = ({ publicUrl }: PlatformOptions["settings"]) =>
  Layer.effect(
    PublicAddress,
    Option.match(publicUrl, {
      onSome: (baseUrl) => Effect.succeed(PublicAddress.of({ baseUrl })),
      onNone: () => Server.publicAddress
    })
  )

/**
 * V8 allocates objects directly in the old generation if almost all earlier objects from the same allocation site have survived. For a server this is
 * wrong: objects that are created during startup survive and those created for requests do not, but both come from the same sites in Effect and Node.
 * In the old generation, the objects of requests remain until the next full collection, with everything that they refer to. This increased the CPU
 * time of a heartbeat by a third.
 */
const layerHeap = Layer.effectDiscard(Effect.sync(() => setFlagsFromString("--no-allocation-site-pretenuring")))

/**
 * From the start of its shutdown, the platform reports that it is not ready, while running jobs still finish. It serves callers for `delay` longer, so that a
 * load balancer can notice: a connection that is accepted but not read when a server closes is reset. Must be the outermost layer.
 */
const layerUnready = (delay: Duration.Duration) =>
  Layer.effectDiscard(
    Effect.flatMap(Readiness, ({ close }) =>
      Effect.addFinalizer(() => Duration.isZero(delay) ? close : Effect.andThen(close, Effect.sleep(delay))))
  )

/** Workers of the local pool call the listening address, regardless of the public URL. */
const layerWorkerAddress = Layer.effect(
  WorkerConnection,
  Effect.gen(function*() {
    const keys = yield* AccessKeys.AccessKeys
    const baseUrl = yield* Server.baseUrl
    return WorkerConnection.of({ baseUrl, keyFor: keys.workerKey })
  })
)

/** With a database, each endpoint's workers run on one of the nodes. The list of endpoints is read from the database. */
const layerAutoscaler = (store: PlatformOptions["store"], shutdownGrace: Duration.Duration) =>
  store !== "memory" && "database" in store
    ? Autoscaler.layer({ shutdownGrace, reconcile: "1 second" }).pipe(Layer.provide(OwnedEndpoints.layer))
    : Autoscaler.layer({ shutdownGrace })

/** Turns a startup failure into a message. The operator can fix each of these failures. */
const failureOf = ({ host, port }: PlatformOptions["settings"]) =>
(
  error: { readonly message: string; readonly cause?: unknown; readonly hint?: string }
): CliFailure => {
  const { cause, hint = "" } = error
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined
  switch (code) {
    case "EADDRINUSE":
      return new CliFailure({
        message: `Port ${port} of ${host} is taken.`,
        hint: "Another platform may be running. Stop it, or choose another port: PORT=4601 stint serve (0 chooses a free one)."
      })
    case "EACCES":
      return new CliFailure({ message: `Port ${port} may not be used.`, hint: "Choose one above 1023: PORT=4600 stint serve." })
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
      return new CliFailure({
        message: `${host} is not an address of this machine.`,
        hint: "Unset STINT_HOST for 127.0.0.1, or set it to an address of this machine."
      })
    default:
      return new CliFailure({ message: `The platform cannot start: ${error.message}`, hint })
  }
}

/** The running platform. Its services remain available to the caller. */
export const layer = (options: PlatformOptions) => {
  const { host, port, shutdownDelay, shutdownGrace } = options.settings
  // A backup holds it, because nothing that the backup's copy of the database refers to may be removed.
  const sweepLock = Semaphore.makeUnsafe(1)
  const queue = Layer.mergeAll(BatchQueue.layer, BulkJobs.layer, RunQueue.layer, Schedules.layer).pipe(
    Layer.provideMerge(JobQueue.layer),
    Layer.provideMerge(JobLogs.layer),
    Layer.provideMerge(Tracing.layerLogs),
    Layer.provideMerge(Tracing.layerStores),
    Layer.provideMerge(Metrics.layerStores),
    Layer.provideMerge(layerUsage(options.settings)),
    // Above the stores, because PostgreSQL stores also provide `Nodes`.
    Layer.provideMerge(WorkerRegistry.layer),
    Layer.provideMerge(StoreEvents.layer),
    Layer.provideMerge(
      layerModels(options).pipe(
        Layer.provideMerge(layerSecrets(options)),
        Layer.provideMerge(layerStores(options, sweepLock))
      )
    ),
    Layer.provide([
      Layer.succeed(LogLimits, options.settings.logs),
      Layer.succeed(TextIndexSize, options.settings.search.maxSize)
    ])
  )
  const listener = layerPublicAddress(options.settings).pipe(
    Layer.provideMerge(Server.layerNode({ host, port }))
  )
  const base = Layer.merge(
    Layer.merge(AccessKeys.layer(options.secrets), AuditLog.layer(options.settings.audit)).pipe(Layer.provideMerge(queue)),
    listener
  )
  const alerts = AlertLayers.layer(options.alerts ?? Option.none(), options.settings.webhooks.timeout)
  const serving = Layer.mergeAll(
    Server.layerWith(Layer.merge(Pages.layer, Metrics.layerPage)),
    Tracing.layerMetrics,
    JobTimers.layer(),
    BatchTimers.layer(),
    ScheduleRunner.layer(),
    BulkRunner.layer(),
    options.settings.search.isIndexed ? TextIndexer.layer() : TextIndexer.layerOff,
    layerWebhooks(options.settings.webhooks)
  ).pipe(
    Layer.provide(alerts),
    Layer.provide(Metrics.layerHistory),
    Layer.provide(layerGuardedHttp(options.settings.webhooks)),
    // Set after their endpoints. Otherwise, another node could fire them, find no endpoint, and record a failure.
    Layer.provide(options.schedules === undefined ? Layer.empty : ContributedSchedules.layer(options.schedules)),
    // Runs before the first request is served, because a caller that waits until the platform listens would get 404.
    Layer.provide(ConfiguredEndpoints.layer(options.endpoints)),
    Layer.provide(
      layerBuilds(options).pipe(Layer.provideMerge(Releases.layerWith({ sweepLock })))
    ),
    Layer.provideMerge(Autoscaler.layerOrphans),
    Layer.provideMerge(
      AgentPool.layer({
        localWorkers: options.workers?.localWorkers,
        localLabels: options.workers?.localLabels,
        clusterSources: options.kubernetes === undefined ? [] : ["container"]
      }).pipe(
        Layer.provideMerge(WorkerPoolLayers.layer(
          ProcessPool.layer({
            dataDir: options.dataDir,
            packagesOf: import.meta.url,
            namedVolumes: options.volumes ?? {},
            ...options.workers
          }),
          { ...options, capacity: options.workers?.capacity }
        )),
        Layer.provide(WorkerLogSink.layer(options.observer?.workerPrinted))
      )
    ),
    Layer.provide(Tracing.layerLinks(options.settings.traceUrl ?? Option.none())),
    Layer.provideMerge(base)
  )
  const workers = layerAutoscaler(options.store, shutdownGrace).pipe(
    Layer.provide(layerWorkerAddress),
    options.observer === undefined ? identity : Layer.provide(Layer.succeed(References.MinimumLogLevel, "Error"))
  )
  return Layer.merge(layerUnready(shutdownDelay), OwnedEndpoints.layerReleaseAtShutdown).pipe(
    Layer.provideMerge(workers),
    Layer.provideMerge(options.hasSharedKeys === true ? Layer.empty : OwnedEndpoints.layerKeyWarning),
    Layer.provideMerge(serving),
    Layer.provide([
      layerLimits(options.settings),
      Layer.succeed(Cors.Origins, options.settings.corsOrigins),
      Layer.succeed(Pages.ConsoleFolder, consoleFolder),
      Metrics.layerObservers.pipe(Layer.provideMerge(Metrics.layerRegistry)),
      PlatformEvents.layer(),
      layerHeap
    ]),
    Layer.catchTag(
      ["PostgresOpenError", "SqliteOpenError", "StoreError", "PoolError", "ServeError", "PayloadError", "SecretsKeyError"],
      (error) => Layer.effectContext(Effect.fail(failureOf(options.settings)(error)))
    )
  )
}
