/**
 * Runs workers as pods of a Kubernetes cluster, for endpoints with the source `container`.
 *
 * ```
 *   start: pod created --> scheduled, image pulled, running --> handle
 * ```
 *
 * `PodBody` describes what a pod cannot do, `PodTable` how the pool detects changes, `PodState` what they mean, and
 * `WorkerPod` what happens until a pod is removed. The pool finds the pods of a killed platform by their label; there are no
 * records.
 */
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import { addressIn, withAddress } from "@stint/pool/PlatformAddress"
import { NoCapacity, PoolError, PoolUnavailable, SpawnFailed, Unsupported } from "@stint/pool/PoolError"
import { maskOf, WorkerLog } from "@stint/pool/WorkerLog"
import { type OrphanedWorker, type StartRequest, WorkerPool } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { createHash } from "node:crypto"
import { hostname } from "node:os"
import { resolve } from "node:path"
import { login } from "./ClusterLogin.ts"
import { RIGHTS } from "./ClusterRules.ts"
import { isExisting, isPassing, isRefused, type KubernetesError } from "./KubernetesError.ts"
import { type KubernetesSettings, settingsOf } from "./KubernetesSettings.ts"
import type { Pod } from "./Pod.ts"
import { bodyOf, type ContainerSource, ENDPOINT_ANNOTATION, nameOf, PLATFORM_LABEL, WORKER_ANNOTATION } from "./PodBody.ts"
import * as PodsApi from "./PodsApi.ts"
import { endOf } from "./PodState.ts"
import * as PodTable from "./PodTable.ts"
import { supervise, type Worker } from "./WorkerPod.ts"

/** Options of the pool. */
export interface Options {
  /** Folder for the positions in the pods' output. */
  readonly dataDir: string
  readonly settings: KubernetesSettings
}

const decodeIds = Schema.decodeUnknownOption(Schema.Struct({ worker: WorkerId, endpoint: EndpointId }))

const ENDED_EARLIER = "its pod had ended before the platform started."

/** How long the API may take to respond when the platform starts. */
const START_LIMIT = "1 minute"

/** The name of a platform whose settings contain none. It differs between machines and between platforms on one machine. */
const platformOf = (dataDir: string): string =>
  createHash("sha256").update(`${hostname()}\n${dataDir}`).digest("hex").slice(0, 32)

/** `create, delete, list and watch of pods, and get of pods/log`. */
const RIGHTS_TEXT = RIGHTS.map(({ resource, verbs }) => `${verbs.join(", ").replace(/, (\w+)$/, " and $1")} of ${resource}`)
  .join(", and ")

const unavailable = (error: KubernetesError, namespace: string): PoolError =>
  new PoolError({
    reason: new PoolUnavailable({
      problem: error.message.replace(/\.$/, ""),
      hint: isRefused(error, 401) || isRefused(error, 403)
        ? `The platform needs a role in the namespace ${namespace} with ${RIGHTS_TEXT}.`
        : "Check the cluster, and the settings in STINT_KUBERNETES."
    })
  })

/** Explains why the API did not create a pod. `mask` hides secrets, because a response can repeat parts of the request. */
const createError = (
  error: KubernetesError,
  endpoint: string,
  namespace: string,
  mask: (text: string) => string
): PoolError => {
  if (error._tag === "ApiRefused") {
    // A quota of the namespace: https://kubernetes.io/docs/concepts/policy/resource-quotas/
    if (error.status === 403 && error.problem.includes("exceeded quota")) {
      return new PoolError({ reason: new NoCapacity({ problem: error.problem }) })
    }
    // An admission check rejects the pod. Without a role, or in a namespace that is being removed, every pod is rejected.
    const isForbidden = error.status === 403 && error.reason === "Forbidden" &&
      !/ cannot create resource | unable to create new content /.test(error.problem)
    if (error.status === 422 || error.status === 400 || isExisting(error) || isForbidden) {
      const hint = `Correct endpoint ${endpoint}, or its pods in STINT_KUBERNETES.`
      return new PoolError({
        reason: new SpawnFailed({ path: `A pod of endpoint ${endpoint}`, problem: mask(error.problem), hint })
      })
    }
  }
  return unavailable(error, namespace)
}

const make = Effect.fnUntraced(function*({ dataDir, settings }: Options) {
  const { namespace } = settings
  const folder = resolve(dataDir)
  const platform = settings.name ?? platformOf(folder)
  const log = yield* WorkerLog
  const access = yield* login(settings)
  const api = PodsApi.make(access, namespace, `${PLATFORM_LABEL}=${platform}`)
  const table = PodTable.make(api)
  const dependencies = { api, table, log, dataDir: folder }

  const launch = Effect.fnUntraced(function*(request: StartRequest, source: ContainerSource) {
    const { endpoint, mask, variables, worker } = request
    const ofEndpoint = settingsOf(settings, endpoint.id)
    const address = addressIn(variables)
    const inside = address === undefined ? variables : withAddress(variables, address.origin, settings.platformUrl)
    const body = yield* bodyOf({ request, source, settings: ofEndpoint, platform, variables: inside })
    const pod = yield* supervise(dependencies, { endpoint: endpoint.id, worker, variables, mask, settings: ofEndpoint })
    let attempts = 0
    yield* Effect.suspend(() => {
      attempts += 1
      return api.create(body)
    }).pipe(
      Effect.tap((created) => Effect.sync(() => table.add(created))),
      Effect.asVoid,
      Effect.retry({ while: isPassing, times: 3, schedule: Schedule.spaced("500 millis") }),
      // An earlier attempt whose response was lost created the pod, because only this worker's pod has this name.
      Effect.catch((error) => attempts > 1 && isExisting(error) ? Effect.void : Effect.fail(error)),
      Effect.mapError((error) => createError(error, endpoint.id, namespace, maskOf(variables, mask))),
      Effect.tapError(() => pod.discard)
    )
    return pod
  })

  const start = Effect.fn("KubernetesPool.start")(function*(request: StartRequest) {
    const { source } = request.endpoint
    if (source.type !== "container") {
      return yield* new PoolError({ reason: new Unsupported({ source: source.type }) })
    }
    // Creating is not interruptible; waiting for a node and an image is.
    let isStarted = false
    // A failed start returns no handle, so the pool removes the pod itself.
    const pod = yield* Effect.acquireRelease(
      launch(request, source),
      ({ close, forget }) => isStarted ? close : Effect.andThen(close, forget)
    )
    yield* pod.started
    isStarted = true
    return pod.handle
  })

  const first = yield* api.list.pipe(
    Effect.retry({ while: isPassing, schedule: Schedule.spaced("1 second") }),
    Effect.timeoutOrElse({
      duration: START_LIMIT,
      orElse: () =>
        Effect.fail(
          new PoolError({
            reason: new PoolUnavailable({
              problem: `the Kubernetes API at ${access.server} did not respond within ${START_LIMIT}`,
              hint: "Check the cluster, and the settings in STINT_KUBERNETES."
            })
          })
        )
    }),
    Effect.mapError((error) => error._tag === "PoolError" ? error : unavailable(error, namespace))
  )

  /** A pod from an earlier run, unless the platform did not write its annotations, or it is a copy under another name. */
  const orphanOf = (pod: Pod): ReadonlyArray<OrphanedWorker> => {
    const { annotations = {}, deletionTimestamp, name } = pod.metadata
    const ids = decodeIds({ worker: annotations[WORKER_ANNOTATION], endpoint: annotations[ENDPOINT_ANNOTATION] })
    if (Option.isNone(ids) || nameOf(ids.value.worker) !== name) return []
    const hadEnded = endOf(pod, { exit: false, kill: false }) !== undefined
    const target = { ...ids.value, settings: settingsOf(settings, ids.value.endpoint) }
    // Follow the pod from now on, so that it is not removed as unknown and its adoption misses no change.
    table.follow(name)
    const orphan: OrphanedWorker = {
      id: target.worker,
      endpoint: target.endpoint,
      isRunning: !hadEnded && deletionTimestamp === undefined,
      adopt: Effect.fnUntraced(function*(variables, mask) {
        const adopted: Worker = { ...target, variables, mask }
        const { close, handle } = yield* supervise(
          dependencies,
          adopted,
          (exit) => hadEnded ? { _tag: "Lost", reason: ENDED_EARLIER, log: exit.log } : exit
        )
        yield* Effect.addFinalizer(() => close)
        return handle
      })
    }
    return [orphan]
  }
  const orphans = first.pods.flatMap(orphanOf)

  /** A pod whose creation the platform did not see, or whose removal failed. */
  const removeUnknown = Effect.fnUntraced(function*({ metadata: { deletionTimestamp, name } }: Pod) {
    if (deletionTimestamp !== undefined) return
    yield* Effect.logWarning(`Removing pod ${name}: it has this platform's label but belongs to none of its workers.`)
    yield* Effect.ignore(api.remove(name, 1))
  })
  yield* Effect.forkScoped(table.run(first, removeUnknown))

  return WorkerPool.of({ supports: ["container"], prepare: () => Effect.void, start, orphans })
})

/** The pool. Fails if the pods from an earlier run cannot be listed, because their workers would otherwise be started twice. */
export const layer = (options: Options): Layer.Layer<WorkerPool, PoolError> => Layer.effect(WorkerPool, make(options))
