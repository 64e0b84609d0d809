/**
 * What the workers of an endpoint run: one release, or two during a rollout.
 */
import { type Endpoint, secretsIn } from "@stint/contract/Endpoint"
import type { Canary } from "@stint/contract/Release"
import type { SecretsService } from "@stint/secrets/Secrets"
import { workerFingerprint } from "@stint/store/ReleaseMachine"
import { ReleaseStore } from "@stint/store/ReleaseStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"

/** The input of a worker's start. */
export interface WorkerTemplate {
  /** The settings of the release. */
  readonly endpoint: Endpoint
  /** The hash of its frozen code, if it has any. */
  readonly code: string | undefined
  /** Workers with another fingerprint are outdated. Contains the versions of the secrets that they receive. */
  readonly fingerprint: string
  /** The fingerprint of workers that run the same settings from the current files. */
  readonly filesFingerprint: string
}

/** An endpoint and what its workers run. */
export interface EndpointTarget {
  readonly endpoint: Endpoint
  readonly current: WorkerTemplate
  /** The release that serves until a worker of `current` is ready. Undefined when no rollout is in progress. */
  readonly previous: WorkerTemplate | undefined
  /** The canary's release, and its rule. */
  readonly canary: CanaryTemplate | undefined
}

/** What the workers of a canary run. */
export interface CanaryTemplate extends WorkerTemplate {
  readonly release: number
  readonly rule: Canary
}

const templateOf = (endpoint: Endpoint, code: string | undefined, { versionOf }: SecretsService): WorkerTemplate => {
  const versions = secretsIn(endpoint.env).map(([, name]) => versionOf(name) ?? null)
  const fingerprint = (code: string | undefined) =>
    workerFingerprint(endpoint, code) + (versions.length === 0 ? "" : JSON.stringify(versions))
  return { endpoint, code, fingerprint: fingerprint(code), filesFingerprint: fingerprint(undefined) }
}

/** The target of an endpoint. An endpoint without releases runs its current files. */
export const targetOf = Effect.fnUntraced(function*(
  endpoint: Endpoint,
  secrets: SecretsService
): Effect.fn.Return<EndpointTarget, StoreError, ReleaseStore> {
  const releases = yield* ReleaseStore
  const { createdAt, id, previousRelease, release } = endpoint
  const code = release === undefined ? undefined : (yield* releases.get(id, release))?.code?.hash
  const current = templateOf(endpoint, code, secrets)
  const before = previousRelease === undefined ? undefined : yield* releases.get(id, previousRelease)
  const tried = endpoint.canary === undefined ? undefined : yield* releases.get(id, endpoint.canary.release)
  const canary = tried?.canary === undefined ? undefined : {
    ...templateOf({ ...tried.settings, createdAt, release: tried.number }, tried.code?.hash, secrets),
    release: tried.number,
    rule: tried.canary
  }
  if (before === undefined) return { endpoint, current, previous: undefined, canary }
  const previous = templateOf({ ...before.settings, createdAt, release: before.number }, before.code?.hash, secrets)
  return { endpoint, current, previous, canary }
})

/** The memory limit of the workers with this fingerprint, in bytes; undefined if they have none or run an earlier release. */
export const memoryLimitOf = (target: EndpointTarget | undefined, fingerprint: string): number | undefined => {
  const source = [target?.current, target?.previous, target?.canary].find((one) => one?.fingerprint === fingerprint)?.endpoint
    .source
  return source === undefined || source.type === "external" ? undefined : source.memoryBytes
}
