/**
 * Runs workers as containers on the platform's machine, through the Docker-compatible engine API of Docker or Podman.
 *
 * ```
 *   start: GPUs possible --> image resolved, pulled --> record --> created --> started --> door to the platform opened --> handle
 * ```
 *
 * `ContainerBody` describes what a container may not do, `PlatformSocket` how it reaches the platform, `WorkerContainer` what happens when the
 * engine stops answering, and `ContainerOrphans` what happens after the platform was killed.
 *
 * Files in `dataDir`: `containers/` (one record per container, see `ContainerRecords`).
 */
import type { NamedVolumes } from "@stint/pool/NamedVolumes"
import { addressIn, withAddress } from "@stint/pool/PlatformAddress"
import { PoolError, PoolUnavailable, SpawnFailed, Unsupported } from "@stint/pool/PoolError"
import * as RecordedReservation from "@stint/pool/RecordedReservation"
import { WorkerLog } from "@stint/pool/WorkerLog"
import { type StartRequest, WorkerPool } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { createHash } from "node:crypto"
import { resolve } from "node:path"
import { bodyOf } from "./ContainerBody.ts"
import * as ContainerOrphans from "./ContainerOrphans.ts"
import { STORED_BYTES } from "./ContainerOutput.ts"
import * as ContainerRecords from "./ContainerRecords.ts"
import type { Engine } from "./Engine.ts"
import type { EngineError } from "./EngineError.ts"
import { locate, unavailable } from "./EngineSocket.ts"
import { type DeviceRequest, gpuHintOf, gpuRequestOf } from "./GpuRequest.ts"
import * as Images from "./Images.ts"
import * as RegistryCredentials from "./RegistryCredentials.ts"
import { type ContainerSource, mountsOf } from "./Volumes.ts"
import { attach, nameOf } from "./WorkerContainer.ts"

/** Options of the pool. */
export interface Options {
  /** Folder for records. Only one platform may use it at a time. */
  readonly dataDir: string
  /** The engine's unix socket. Default: the first of the usual sockets at which an engine answers. */
  readonly socket?: string | undefined
  /**
   * A file with registry credentials in the form of Docker's `config.json`. Default: `~/.docker/config.json`, or else Podman's
   * `auth.json`.
   */
  readonly credentials?: string | undefined
  /** Folders of the host that endpoints may mount, with everything in them. Default: none. */
  readonly volumes?: ReadonlyArray<string>
  /** The folders that endpoints may mount by name. Default: none. */
  readonly namedVolumes?: NamedVolumes
}

/** The name of the platform with this data folder, in the labels of its containers. */
const platformOf = (dataDir: string): string => createHash("sha256").update(dataDir).digest("hex").slice(0, 16)

const failed = (image: string, problem: string, hint: string) =>
  new PoolError({ reason: new SpawnFailed({ path: `A container of ${image}`, problem, hint }) })

const ENGINE_LOG = "See the engine's log for details."

/** Explains why the engine did not create or start a container. */
const startError = ({ image, network }: ContainerSource, endpoint: string, name: string, error: EngineError): PoolError => {
  if (error._tag === "EngineUnreachable") return unavailable(error)
  const { problem, status } = error
  if (status === 409) {
    return failed(image, `the engine already has a container ${name} (${problem})`, `Remove it: docker rm --force ${name}.`)
  }
  const gpuHint = gpuHintOf(problem)
  if (gpuHint !== undefined) return failed(image, problem, gpuHint)
  if (/network/i.test(problem) && network !== undefined) {
    return failed(image, problem, `Correct the network of endpoint ${endpoint}, which is "${network}".`)
  }
  if (/(?:init|catatonit).*(?:not found|no such file)|container-init/i.test(problem)) {
    return failed(
      image,
      problem,
      "Install the engine's init program: apt-get install catatonit (for Podman), or tini (for Docker)."
    )
  }
  if (/executable file|no such file or directory|not found in \$PATH|permission denied|exec format/i.test(problem)) {
    return failed(image, problem, `Correct the command of endpoint ${endpoint}, or the image's ENTRYPOINT and CMD.`)
  }
  return failed(image, problem, ENGINE_LOG)
}

/** The request for the worker's GPUs. Fails when the engine would start the container without them. */
const gpuRequestFor = Effect.fnUntraced(function*(
  engine: Engine,
  { gpus, image }: ContainerSource,
  gpuIds: StartRequest["gpuIds"]
) {
  if (gpus === undefined) return undefined
  const version = yield* engine.version.pipe(
    Effect.mapError((error) => error._tag === "EngineUnreachable" ? unavailable(error) : failed(image, error.problem, ENGINE_LOG))
  )
  const request = gpuRequestOf(version, gpus, gpuIds)
  return "problem" in request ? yield* failed(image, request.problem, request.hint) : request
})

/** Why the pool does not look for containers of an earlier run, for the log. Other pools do not need the engine. */
const searchProblem = (error: PoolError | EngineError): string => {
  const known = error._tag === "EngineUnreachable" ? unavailable(error) : error
  if (known._tag !== "PoolError" || known.reason._tag !== "PoolUnavailable") {
    return `The platform cannot look for unrecorded containers of an earlier run. ${known.message}`
  }
  const { hint, problem } = known.reason
  return "No worker can be started in a container, and containers that an earlier run left without a record are not removed: " +
    `${problem}. ${hint} Other workers start without it.`
}

const make = Effect.fnUntraced(function*(options: Options) {
  const dataDir = resolve(options.dataDir)
  const platform = platformOf(dataDir)
  const log = yield* WorkerLog
  const records = ContainerRecords.make(dataDir)
  const engineFound = locate(options.socket)
  const images = yield* Images.make(engineFound, {
    credentials: options.credentials === undefined ? RegistryCredentials.usualFiles() : [options.credentials]
  })

  /** Removes the container and the record of a failed start. */
  const discard = (engine: Engine, worker: string) =>
    Effect.andThen(Effect.ignore(engine.remove(nameOf(worker))), Effect.sync(() => records.remove(worker)))

  const launch = Effect.fnUntraced(function*(
    engine: Engine,
    request: StartRequest,
    source: ContainerSource,
    gpuRequest: DeviceRequest | undefined
  ) {
    const { endpoint, mask, pull, variables, worker } = request
    const volumes = yield* mountsOf(source, { allowed: options.volumes ?? [], named: options.namedVolumes ?? {} })
    const image = yield* images.resolve(endpoint.id, source.image, pull)
    const name = nameOf(worker)
    const address = addressIn(variables)
    if (source.network !== "host" && address?.protocol === "https:") {
      return yield* new PoolError({
        reason: new PoolUnavailable({
          problem:
            `the platform's address ${address.origin} needs TLS, and a container's separate network reaches it only by the name 127.0.0.1`,
          hint:
            `Set the network of endpoint ${endpoint.id} to host, or give the agent an http address: stint agent --join http://...`
        })
      })
    }
    const port = source.network === "host" || address === undefined ? null : Number(address.port || 80)
    const inside = port === null || address === undefined
      ? variables
      : withAddress(variables, address.origin, `http://127.0.0.1:${port}`)
    const record = { worker, endpoint: endpoint.id, socket: engine.socket, port, ...RecordedReservation.of(request) }
    yield* Effect.try({
      try: () => records.write(record),
      catch: (cause) =>
        new PoolError({
          reason: new PoolUnavailable({
            problem: `a container cannot be recorded in ${ContainerRecords.folderIn(dataDir)} (${
              cause instanceof Error ? cause.message : String(cause)
            })`,
            hint: "Make the data folder writable, or free space on its disk."
          })
        })
    })
    const body = bodyOf({
      request: { ...request, variables: inside },
      source,
      image,
      platform,
      volumes,
      storedBytes: STORED_BYTES,
      gpuRequest
    })
    return yield* engine.create(name, body).pipe(
      Effect.andThen(engine.start(name)),
      Effect.tapError((error) =>
        error._tag === "EngineRefused" && error.status === 404 ? Effect.sync(() => images.release(endpoint.id)) : Effect.void
      ),
      Effect.mapError((error) => startError(source, endpoint.id, name, error)),
      Effect.andThen(attach({ engine, log, records }, { endpoint: endpoint.id, worker, variables, mask, port })),
      Effect.onError(() => discard(engine, worker))
    )
  })

  const start = Effect.fn("ContainerPool.start")(function*(request: StartRequest) {
    const { source } = request.endpoint
    if (source.type !== "container") {
      return yield* new PoolError({ reason: new Unsupported({ source: source.type }) })
    }
    const engine = yield* engineFound
    // An engine that cannot give the GPUs would pull a large image in vain.
    const gpuRequest = yield* gpuRequestFor(engine, source, request.gpuIds)
    // Pulling may take minutes and is interruptible. Creating and starting are not.
    yield* images.resolve(request.endpoint.id, source.image, request.pull)
    /** Whether the caller has the handle, and processes the exit. */
    let isStarted = false
    const { handle } = yield* Effect.acquireRelease(
      launch(engine, request, source, gpuRequest),
      ({ close, handle: { forget = Effect.void } }) => isStarted ? close : Effect.andThen(close, forget)
    )
    isStarted = true
    return handle
  })

  const prepare: WorkerPool["Service"]["prepare"] = ({ id, source }) => {
    if (source.type !== "container") return Effect.void
    images.release(id)
    return engineFound.pipe(
      Effect.flatMap((engine) => gpuRequestFor(engine, source, undefined)),
      Effect.andThen(images.resolve(id, source.image)),
      Effect.ignore
    )
  }

  yield* Effect.flatMap(engineFound, (engine) => ContainerOrphans.removeUnknown(engine, records, platform)).pipe(
    Effect.catch((error) => Effect.logWarning(searchProblem(error))),
    Effect.forkScoped
  )
  const orphans = yield* ContainerOrphans.find({ log, records })
  return WorkerPool.of({ supports: ["container"], prepare, start, orphans })
})

/** The pool. It does not need an engine until a worker starts. */
export const layer = (options: Options): Layer.Layer<WorkerPool> => Layer.effect(WorkerPool, make(options))
