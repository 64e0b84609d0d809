/**
 * The pod of a worker.
 *
 * It passes the strictest of Kubernetes' Pod Security Standards, "restricted":
 * https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 *
 * | what a pod cannot do | how |
 * |---|---|
 * | run as root, gain rights | `runAsNonRoot`, no privilege escalation, no capabilities, the runtime's seccomp profile |
 * | change its image | read-only root; `/tmp` is a folder of the pod |
 * | call the Kubernetes API | no token of a service account; no variables of services |
 * | exhaust its node | limits of CPUs and memory, which are also what it reserves |
 */
import type { EndpointSource } from "@stint/contract/Endpoint"
import type { Labels } from "@stint/contract/Placement"
import { defaultsFor } from "@stint/pool/LocalWorkerDefaults"
import { volumeMissing } from "@stint/pool/NamedVolumes"
import { ModelMissing, PoolError, SpawnFailed } from "@stint/pool/PoolError"
import type { StartRequest } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import { createHash } from "node:crypto"
import { WORKER_LABELS } from "./ClusterRules.ts"
import type { PodSettings } from "./KubernetesSettings.ts"
import { CONTAINER } from "./PodsApi.ts"

/** The source of an endpoint whose workers are pods. */
export type ContainerSource = Extract<EndpointSource, { readonly type: "container" }>

/** The label that names the platform of a pod. */
export const PLATFORM_LABEL = "stint/platform"

/** The annotation with the worker's id, which need not be valid as a label. */
export const WORKER_ANNOTATION = "stint/worker"
/** The annotation with the endpoint's id, which need not be valid as a label. */
export const ENDPOINT_ANNOTATION = "stint/endpoint"

const DEFAULT_GPU = "nvidia.com/gpu"

/** How long a worker may take to end after SIGTERM. Seconds. */
export const DEFAULT_GRACE = 300

/** Where a volume without a target is mounted: the platform's name, and RunPod's (docs/spec/environment.md). */
const TARGETS = ["/platform-volume", "/runpod-volume"]

const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex").slice(0, 32)

/** The maximum length of a worker's id within a pod's name, in characters. */
const LONGEST = 57

/** The name of a worker's pod. It is derived from the worker's id, so the API rejects a second pod for one worker. */
export const nameOf = (worker: string): string =>
  `stint-${worker.length <= LONGEST && /^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/.test(worker) ? worker : hashOf(worker)}`

/** An endpoint's id as a label value, which must end with a letter or a digit. */
const labelOf = (endpoint: string): string => /[A-Za-z0-9]$/.test(endpoint) ? endpoint : hashOf(endpoint)

/** The parts of a pod that are not in the source. */
export interface PodParts {
  readonly request: StartRequest
  readonly source: ContainerSource
  readonly settings: PodSettings
  readonly platform: string
  /** With the address at which pods reach the platform. */
  readonly variables: StartRequest["variables"]
}

const unsupported = (endpoint: string, problem: string, hint: string) =>
  Effect.fail(new PoolError({ reason: new SpawnFailed({ path: `A pod of endpoint ${endpoint}`, problem, hint }) }))

/** Rejects settings of the source that a pod does not support, so that none is silently ignored. */
const check = Effect.fnUntraced(function*({ request: { endpoint, model }, source }: PodParts) {
  if (model !== undefined) {
    return yield* new PoolError({
      reason: new ModelMissing({
        problem: `The model of endpoint ${endpoint.id} is on the platform's machine, which its pods cannot access. ` +
          "Remove it from the endpoint, and mount a volume that contains the model."
      })
    })
  }
  if (source.pids !== undefined) {
    return yield* unsupported(endpoint.id, "pids cannot be set for a pod", "Remove it; the nodes limit it with podPidsLimit.")
  }
  if (source.network !== undefined) {
    return yield* unsupported(
      endpoint.id,
      `the network "${source.network}" is one of a container engine`,
      "Remove it, and limit the pods with a NetworkPolicy."
    )
  }
  if (source.gpus === "all") {
    return yield* unsupported(endpoint.id, "a pod needs a number of GPUs, not \"all\"", `Set its gpus to a number.`)
  }
  if (source.user !== undefined && !/^\d+(?::\d+)?$/.test(source.user)) {
    return yield* unsupported(
      endpoint.id,
      `the user "${source.user}" is not a number`,
      "Set it to numbers, for example 1000:1000."
    )
  }
  if (source.user !== undefined && Number.parseInt(source.user, 10) === 0) {
    return yield* unsupported(
      endpoint.id,
      `the user "${source.user}" is root`,
      "Set it to another number, for example 1000:1000."
    )
  }
})

const volumesOf = Effect.fnUntraced(function*({ volumes = [] }: ContainerSource) {
  const claims = [...new Set(volumes.map(({ source }) => source))]
  for (const claim of claims) {
    if (!/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/.test(claim)) {
      return yield* volumeMissing(
        claim,
        "a volume of a pod is a PersistentVolumeClaim",
        "Name a claim in the namespace of the pods, for example shared-data."
      )
    }
  }
  const nameFor = (claim: string) => `claim-${claims.indexOf(claim)}`
  return {
    volumes: claims.map((claim) => ({ name: nameFor(claim), persistentVolumeClaim: { claimName: claim } })),
    mounts: volumes.flatMap(({ readOnly = false, source, target }) =>
      (target === undefined ? TARGETS : [target]).map((mountPath) => ({ name: nameFor(source), mountPath, readOnly }))
    )
  }
})

/** The resources of a pod: its limits, and what it reserves on its node. */
const resourcesOf = ({ cpus, gpus, memoryBytes }: ContainerSource, { gpuResource = DEFAULT_GPU, requests }: PodSettings) => {
  const limits = {
    ...(cpus === undefined ? {} : { cpu: `${Math.round(cpus * 1_000)}m` }),
    ...(memoryBytes === undefined ? {} : { memory: String(memoryBytes) }),
    ...(gpus === undefined ? {} : { [gpuResource]: String(gpus) })
  }
  return { limits, requests: { ...limits, ...requests } }
}

/** The nodes that have the endpoint's labels. Applies in addition to the operator's `nodeSelector`. */
const affinityOf = (labels: Labels) => ({
  nodeAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [{
        matchExpressions: Object.entries(labels).map(([key, value]) => ({ key, operator: "In", values: [value] }))
      }]
    }
  }
})

/** Escapes a text in which Kubernetes would replace $(NAME) with the value of a variable, and $$ with $. */
const verbatim = (text: string): string => text.replaceAll("$", () => "$$")

/** The body of the request that creates the pod. */
export const bodyOf = Effect.fnUntraced(function*(parts: PodParts) {
  const { platform, request: { endpoint, worker }, settings, source, variables } = parts
  yield* check(parts)
  const { mounts, volumes } = yield* volumesOf(source)
  const environment: Record<string, string> = { PYTHONUNBUFFERED: "1", ...endpoint.env, ...variables }
  const labels = endpoint.placement?.labels ?? {}
  const [user, group] = source.user?.split(":").map(Number) ?? []
  const given = <K extends keyof PodSettings>(...keys: ReadonlyArray<K>) =>
    Object.fromEntries(keys.flatMap((key) => settings[key] === undefined ? [] : [[key, settings[key]]]))
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: nameOf(worker),
      labels: {
        ...settings.labels,
        ...WORKER_LABELS,
        [PLATFORM_LABEL]: platform,
        "stint/endpoint": labelOf(endpoint.id)
      },
      annotations: { [WORKER_ANNOTATION]: worker, [ENDPOINT_ANNOTATION]: endpoint.id }
    },
    spec: {
      restartPolicy: "Never",
      terminationGracePeriodSeconds: settings.graceSeconds ?? DEFAULT_GRACE,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      ...given("nodeSelector", "tolerations", "priorityClassName", "runtimeClassName", "serviceAccountName"),
      ...(Object.keys(labels).length === 0 ? {} : { affinity: affinityOf(labels) }),
      ...(settings.imagePullSecrets === undefined
        ? {}
        : { imagePullSecrets: settings.imagePullSecrets.map((name) => ({ name })) }),
      securityContext: {
        runAsNonRoot: true,
        seccompProfile: { type: "RuntimeDefault" },
        ...(user === undefined ? {} : { runAsUser: user }),
        // The group of the claims' files, so that a user other than root can write them.
        ...(group === undefined ? {} : { runAsGroup: group, fsGroup: group })
      },
      volumes: [
        { name: "tmp", emptyDir: settings.tmpSize === undefined ? {} : { sizeLimit: settings.tmpSize } },
        ...volumes
      ],
      containers: [{
        name: CONTAINER,
        image: source.image,
        imagePullPolicy: settings.imagePullPolicy ?? "IfNotPresent",
        ...(source.command === undefined ? {} : { args: source.command.map(verbatim) }),
        env: Object.entries({ ...environment, ...defaultsFor(environment) }).map(([name, value]) => ({
          name,
          value: verbatim(value)
        })),
        resources: resourcesOf(source, settings),
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] }
        },
        volumeMounts: [{ name: "tmp", mountPath: "/tmp" }, ...mounts]
      }]
    }
  }
})
