/**
 * Interprets the state of a worker's pod.
 *
 * | what a pod reports | meaning |
 * |---|---|
 * | `PodScheduled` is false with the reason `Unschedulable` | waits; after the configured time, no capacity, with the scheduler's message |
 * | the image cannot be pulled, or the container cannot be created | the worker cannot be started, with the kubelet's message |
 * | it failed before its container ran (`OutOfcpu`, `NodeAffinity`, `Evicted`) | no capacity |
 * | its container ended | exit code, signal, out of memory |
 * | condition `DisruptionTarget`, or the reason `Evicted` | lost: preempted, evicted, or its node is gone |
 */
import { NoCapacity, PoolError, SpawnFailed } from "@stint/pool/PoolError"
import { signalOf, type WorkerExit } from "@stint/pool/WorkerExit"
import type { Pod } from "./Pod.ts"
import { CONTAINER } from "./PodsApi.ts"

/** The progress of a start. */
export type Start =
  | { readonly _tag: "Started" }
  | { readonly _tag: "Failed"; readonly error: PoolError }
  /** `unschedulable`: the scheduler's message, if no node has room for the pod. */
  | { readonly _tag: "Waiting"; readonly unschedulable: string | undefined; readonly reason: string }

/**
 * Reasons of a waiting container that waiting does not resolve. `ErrImagePull` is not one of them: the kubelet retries, and then
 * reports `ImagePullBackOff`. https://kubernetes.io/docs/concepts/containers/images/#imagepullbackoff
 */
const HOPELESS = new Set([
  "CreateContainerConfigError",
  "CreateContainerError",
  "ErrImageNeverPull",
  "ImageInspectError",
  "ImagePullBackOff",
  "InvalidImageName",
  "RunContainerError"
])

/** A container runtime's reasons for ending a container whose program it could not run. */
const NOT_RUN = new Set(["ContainerCannotRun", "StartError"])

const stateOf = (pod: Pod) => pod.status?.containerStatuses?.find(({ name }) => name === CONTAINER)?.state

const wordsOf = (reason: string | undefined, message: string | undefined): string =>
  [reason, message].filter((part) => part !== undefined && part !== "").join(": ").replace(/\.$/, "") || "no reason is given"

const hintOf = (endpoint: string, reason: string, message: string): string => {
  if (message.includes("runAsNonRoot") || message.includes("non-numeric user")) {
    return `Set the user of endpoint ${endpoint}, for example "1000:1000", or use an image whose USER is a number and not root.`
  }
  if (/image/i.test(reason)) {
    return `Correct the image of endpoint ${endpoint}, or add its credentials to imagePullSecrets in STINT_KUBERNETES.`
  }
  return `Correct the command, the image or the volumes of endpoint ${endpoint}.`
}

/** The progress of starting a worker's pod. */
export const startOf = (pod: Pod, endpoint: string): Start => {
  const { name } = pod.metadata
  const state = stateOf(pod)
  const spawnFailed = (reason: string, message: string): Start => ({
    _tag: "Failed",
    error: new PoolError({
      reason: new SpawnFailed({
        path: `The pod ${name}`,
        problem: wordsOf(reason, message),
        hint: hintOf(endpoint, reason, message)
      })
    })
  })
  if (state?.terminated !== undefined) {
    const { message = "", reason = "" } = state.terminated
    return NOT_RUN.has(reason) ? spawnFailed(reason, message) : { _tag: "Started" }
  }
  if (state?.running !== undefined) return { _tag: "Started" }
  const { conditions = [], message, phase, reason } = pod.status ?? {}
  if (phase === "Failed" || phase === "Succeeded") {
    const problem = `the pod ${name} ended before its container ran (${wordsOf(reason, message)})`
    return { _tag: "Failed", error: new PoolError({ reason: new NoCapacity({ problem }) }) }
  }
  const { waiting } = state ?? {}
  if (waiting?.reason !== undefined && HOPELESS.has(waiting.reason)) return spawnFailed(waiting.reason, waiting.message ?? "")
  const scheduled = conditions.find(({ type }) => type === "PodScheduled")
  const unschedulable = scheduled?.status === "False" && scheduled.reason === "Unschedulable"
    ? wordsOf(undefined, scheduled.message)
    : undefined
  return {
    _tag: "Waiting",
    unschedulable,
    reason: unschedulable ?? wordsOf(waiting?.reason ?? phase, waiting?.message)
  }
}

/** The reasons of `DisruptionTarget`. https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions */
const DISRUPTIONS: Readonly<Record<string, string>> = {
  PreemptionByScheduler: "was preempted by a pod with a higher priority",
  DeletionByTaintManager: "was removed from its node, which is not ready or has a taint",
  EvictionByEvictionAPI: "was evicted, for example because its node is drained",
  DeletionByPodGC: "was removed because its node no longer exists",
  TerminationByKubelet: "was ended by its node, which is shutting down or low on a resource"
}

/** Why the cluster ended a pod, as a sentence; undefined when it did not. */
const disruptionOf = (pod: Pod): string | undefined => {
  const { conditions = [], message, reason } = pod.status ?? {}
  const target = conditions.find(({ status, type }) => type === "DisruptionTarget" && status === "True")
  if (target === undefined && reason !== "Evicted") return undefined
  const what = DISRUPTIONS[target?.reason ?? ""] ?? "was evicted by its node"
  const words = message ?? target?.message
  return `its pod ${pod.metadata.name} ${what}${words === undefined || words === "" ? "" : ` (${words.replace(/\.$/, "")})`}.`
}

/** An exit, without the last lines. */
export type End = (log: ReadonlyArray<string>) => WorkerExit

const lost = (reason: string): End => (log) => ({ _tag: "Lost", reason, log })

const killed = (signal: string, outOfMemory: boolean): End => (log) => ({ _tag: "Killed", signal, outOfMemory, log })

/** The platform's requests to a pod. */
export interface Asked {
  readonly exit: boolean
  readonly kill: boolean
}

/** How a pod ended; undefined while it has not. */
export const endOf = (pod: Pod, asked: Asked): End | undefined => {
  const { name } = pod.metadata
  const { message, phase, reason } = pod.status ?? {}
  const terminated = stateOf(pod)?.terminated
  const hasEnded = terminated !== undefined || phase === "Failed" || phase === "Succeeded"
  const disruption = disruptionOf(pod)
  if (disruption !== undefined && !asked.kill) {
    // A node that does not respond never reports the end. Its pod stays "Running" until the node returns.
    const isUnreachable = pod.metadata.deletionTimestamp !== undefined &&
      pod.status?.conditions?.some((one) => one.reason === "DeletionByTaintManager") === true
    return hasEnded || isUnreachable ? lost(disruption) : undefined
  }
  if (!hasEnded) return undefined
  if (terminated === undefined) return lost(`its pod ${name} failed (${wordsOf(reason, message)}).`)
  const signal = signalOf(terminated.exitCode)
  if (terminated.reason === "OOMKilled") return killed("SIGKILL", true)
  if (asked.kill) return killed(signal ?? "SIGTERM", false)
  if (signal !== undefined) return killed(signal, false)
  return (log) => ({ _tag: "Exited", code: terminated.exitCode, log })
}

/** The exit of a pod that no longer exists and whose end the platform did not see. */
export const endOfRemoved = (name: string, pod: Pod | undefined, asked: Asked): End => {
  const seen = pod === undefined ? undefined : endOf(pod, asked)
  if (seen !== undefined) return seen
  if (asked.kill) return killed("SIGKILL", false)
  const disruption = pod === undefined ? undefined : disruptionOf(pod)
  if (disruption !== undefined) return lost(disruption)
  return lost(
    asked.exit ? `its pod ${name} was removed before its exit code was read.` : `another program deleted its pod ${name}.`
  )
}
