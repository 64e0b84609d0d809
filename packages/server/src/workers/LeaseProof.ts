/**
 * Decides whether a worker's request proves that the worker holds a job (docs/spec/worker-protocol.md#lease-tokens).
 *
 * ```
 *   the key of one worker   --> its id in the URL is proof
 *   the key of the endpoint --> a lease token, if the worker took the job with one or the endpoint requires it
 * ```
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { Conflict, type JobNotFound, problemMembers } from "@stint/contract/Problem"
import { type Ping, pingTokens } from "@stint/contract/WorkerProtocol"
import type { LeaseHolder } from "@stint/queue/JobQueue"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { AccessKeys, type WorkerIdentity } from "../auth/AccessKeys.ts"
import { excerpt } from "../http/ProblemJson.ts"
import { jobNotFound } from "../http/QueueProblems.ts"
import type * as JournalOperation from "../runs/JournalOperation.ts"

const isJobId = Schema.is(JobId)

const tokenMissing = ({ job, worker }: LeaseHolder) =>
  new Conflict(problemMembers(
    `The request contains no lease token, which is required to change job "${job}" as worker "${
      excerpt(worker)
    }". It was not stored.`,
    "Send the `leaseToken` of the taken job back as `&lease_token=`. Stint's current worker SDKs do. For workers that cannot, give each " +
      "worker its own key, or set the endpoint's `leaseToken` to \"optional\"."
  ))

const tokenInvalid = ({ job, worker }: LeaseHolder) =>
  new Conflict(problemMembers(
    `The lease token does not prove that worker "${
      excerpt(worker)
    }" took job "${job}" in this attempt. The request was not stored.`,
    "Send the `leaseToken` of the taken job unchanged, with the worker id that took the job. If the platform's worker secret was changed " +
      "since, drop the job and take another."
  ))

/** A worker, as a request names it, and what the request's key proves. */
export interface Caller {
  readonly endpoint: Endpoint
  readonly worker: string
  readonly identity: WorkerIdentity
}

/** A job that a request names. */
export interface NamedJob {
  readonly id: string
  readonly attempt: number | undefined
  readonly token: string | undefined
}

/** The checks, over this server's keys and workers. */
export const make = Effect.gen(function*() {
  const registry = yield* WorkerRegistry
  const keys = yield* AccessKeys

  /**
   * Whether a request may return or lose jobs that it does not name. With the key of the endpoint, which all its workers share, the request
   * may come from another worker. It must then not affect jobs that need a token.
   */
  const mayReleaseJobs = ({ endpoint, identity, worker }: Caller): boolean =>
    identity === "worker" || (endpoint.leaseToken !== "required" && registry.tokenJobs(endpoint.id, worker).size === 0)

  /** Whether a write to this job must have a token: the worker took the job with one, or the endpoint requires it. */
  const needsToken = ({ endpoint, identity, worker }: Caller, job: string): boolean =>
    identity !== "worker" && (endpoint.leaseToken === "required" || registry.tokenJobs(endpoint.id, worker).has(job))

  /** The lease under which a request writes to a job. The queue checks that the worker holds it. */
  const holderOf = (caller: Caller, { attempt, id, token }: NamedJob): Effect.Effect<LeaseHolder, JobNotFound | Conflict> => {
    if (!isJobId(id)) return Effect.fail(jobNotFound(id))
    const holder = { endpoint: caller.endpoint.id, worker: caller.worker, job: id }
    if (token === undefined) {
      return needsToken(caller, id) ? Effect.fail(tokenMissing(holder)) : Effect.succeed({ ...holder, attempt })
    }
    const proven = keys.attemptOfLeaseToken(token, holder)
    return proven === undefined || (attempt !== undefined && attempt !== proven)
      ? Effect.fail(tokenInvalid(holder))
      : Effect.succeed({ ...holder, attempt: proven })
  }

  /** The jobs in a heartbeat for which the worker proves its lease. The others are ignored, because another worker may have named them. */
  const provenJobs = (caller: Caller, jobs: ReadonlyArray<string>, ping: Ping): ReadonlyArray<string> => {
    if (caller.identity === "worker") return jobs
    const tokens = pingTokens(ping)
    return jobs.filter((job, at) => {
      const token = tokens[at] ?? ""
      return token === ""
        ? !needsToken(caller, job)
        : keys.attemptOfLeaseToken(token, { endpoint: caller.endpoint.id, worker: caller.worker, job }) !== undefined
    })
  }

  /** Whether the worker may write to a run: the attempt that it holds, or why it may not. */
  const runProof = (caller: Caller): JournalOperation.Proof => (write) => {
    const holder = { endpoint: caller.endpoint.id, worker: caller.worker, job: JobId.make(write.run) }
    if (write.leaseToken === undefined) {
      return needsToken(caller, write.run) ? { cause: tokenMissing(holder).error } : { attempt: write.attempt }
    }
    const attempt = keys.attemptOfLeaseToken(write.leaseToken, holder)
    return attempt === write.attempt ? { attempt } : { cause: tokenInvalid(holder).error }
  }

  return { mayReleaseJobs, holderOf, provenJobs, runProof }
})
