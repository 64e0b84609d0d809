/**
 * Describes a running worker to the scaling policy.
 */
import type { WorkerStatus } from "@stint/queue/WorkerRegistry"
import type { PolicyWorker } from "./ScalingPolicy.ts"
import { ADOPTED, type WorkerLifecycle } from "./WorkerLifecycle.ts"
import type { EndpointTarget } from "./WorkerTemplate.ts"

/** `now`: monotonic time, in milliseconds. */
export const policyWorkerOf = (
  life: WorkerLifecycle,
  status: WorkerStatus | undefined,
  { current, previous }: EndpointTarget,
  now: number
): PolicyWorker => {
  const holds = (status?.jobs.length ?? 0) > 0
  const state = life.draining !== undefined || life.killReason() !== undefined
    ? "draining"
    : !life.ready
    ? "starting"
    : holds
    ? "running"
    : "idle"
  return {
    id: life.id,
    state,
    idleSince: state === "idle" ? status?.idleSince ?? now : null,
    outdated: life.fingerprint !== current.fingerprint && life.fingerprint !== ADOPTED,
    abandoned: previous !== undefined && life.fingerprint !== current.fingerprint && life.fingerprint !== previous.fingerprint
  }
}
