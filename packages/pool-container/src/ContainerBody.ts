/**
 * The request that creates a worker's container.
 *
 * | what a container may not do | how |
 * |---|---|
 * | change its image | read-only root file system; `/tmp` is in memory |
 * | gain rights | no capabilities, `no-new-privileges` |
 * | exhaust the machine | limits of memory (without swap), CPUs and processes |
 * | reach other programs | its own process namespace and, by default, its own network, in which only the platform is reachable |
 *
 * An init process runs the image's program, so that SIGTERM ends a program without a SIGTERM handler, and orphaned processes are reaped.
 */
import { defaultsFor } from "@stint/pool/LocalWorkerDefaults"
import { modelVariables } from "@stint/pool/WorkerModel"
import type { StartRequest } from "@stint/pool/WorkerPool"
import { readFileSync } from "node:fs"
import type { DeviceRequest } from "./GpuRequest.ts"
import { type ContainerSource, modelMountsOf, type Mount } from "./Volumes.ts"

/** The label that names the platform of a container. */
export const PLATFORM_LABEL = "stint.platform"

/** The number of processes of a container whose source does not set `pids`. More than a worker needs, and few enough for the machine. */
const DEFAULT_PIDS = 1_024

/** Limits that the pool sets explicitly: an engine raises them by default, which fails on machines that forbid it. */
const ULIMITS = { nofile: { line: "Max open files", most: 65_536 }, nproc: { line: "Max processes", most: 16_384 } } as const

const readLimits = (): string => {
  try {
    return readFileSync("/proc/self/limits", "utf8")
  } catch {
    // A system without /proc, such as macOS, whose engine runs in a virtual machine.
    return ""
  }
}

/** The limits in the form of the engine's API: at most this process's own, which are usually the engine's, too. */
const ulimits = () => {
  const limits = readLimits()
  return Object.entries(ULIMITS).map(([Name, { line, most }]) => {
    const hard = new RegExp(`^${line} +\\S+ +(\\d+)`, "m").exec(limits)?.[1]
    const value = Math.min(most, hard === undefined ? most : Number(hard))
    return { Name, Soft: value, Hard: value }
  })
}

/** The parts of the request that are not in the source. */
export interface ContainerParts {
  readonly request: StartRequest
  readonly source: ContainerSource
  /** The image's id. */
  readonly image: string
  /** The name of this platform. */
  readonly platform: string
  readonly volumes: ReadonlyArray<Mount>
  /** How much output the engine stores. Bytes. */
  readonly storedBytes: number
  /** Requests the worker's GPUs; undefined for a worker without GPUs. */
  readonly gpuRequest: DeviceRequest | undefined
}

/** The network of a container whose source names none. It has only a loopback interface. */
const DEFAULT_NETWORK = "none"

/** The body of the request that creates the container. */
export const bodyOf = ({ gpuRequest, image, platform, request, source, storedBytes, volumes }: ContainerParts) => {
  const { endpoint, model, variables, worker } = request
  const ofCache = modelMountsOf(model, volumes)
  const [cache] = ofCache
  const ofModel = model === undefined || cache === undefined ? {} : modelVariables(model, cache.Target)
  const environment: Record<string, string> = { PYTHONUNBUFFERED: "1", ...ofModel, ...endpoint.env, ...variables }
  const { memoryBytes } = source
  return {
    Image: image,
    ...(source.command === undefined ? {} : { Cmd: source.command }),
    ...(source.user === undefined ? {} : { User: source.user }),
    Env: Object.entries({ ...environment, ...defaultsFor(environment) }).map(([name, value]) => `${name}=${value}`),
    Labels: {
      [PLATFORM_LABEL]: platform,
      "stint.endpoint": endpoint.id,
      "stint.worker": worker,
      "stint.image": source.image
    },
    AttachStdin: false,
    Tty: false,
    HostConfig: {
      Init: true,
      ReadonlyRootfs: true,
      Tmpfs: { "/tmp": "rw,nosuid,nodev,exec,mode=1777" },
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges"],
      NetworkMode: source.network ?? DEFAULT_NETWORK,
      PidsLimit: source.pids ?? DEFAULT_PIDS,
      ...(memoryBytes === undefined ? {} : { Memory: memoryBytes, MemorySwap: memoryBytes }),
      ...(source.cpus === undefined ? {} : { NanoCpus: Math.round(source.cpus * 1e9) }),
      ...(gpuRequest === undefined ? {} : { DeviceRequests: [gpuRequest] }),
      Mounts: [...volumes, ...ofCache],
      Ulimits: ulimits(),
      // json-file is Podman's k8s-file. journald and others can lose lines, or cannot be read.
      LogConfig: { Type: "json-file", Config: { "max-size": String(storedBytes) } },
      RestartPolicy: { Name: "no" }
    }
  }
}
