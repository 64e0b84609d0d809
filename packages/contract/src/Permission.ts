/**
 * The scopes that each operation accepts, derived from the guard that it declares. The guards of the server read the same tables
 * (docs/reference/authorization.md).
 *
 * ```
 *   JobsAuthorization, OpenAiAuthorization    caller     the operation's own scope (jobScopeOf), for the endpoint in the URL
 *   BulkAuthorization                         manager    changes to jobs, limited to the key's endpoints; reads: viewer
 *   ViewerAuthorization                       viewer     the state of the key's endpoints
 *   ControlAuthorization                      operator   every endpoint
 *   KeysAuthorization                         owner      the platform itself: keys, the audit log, backups
 *   WorkerAuthorization                       worker     worker keys, for the endpoint in the URL
 *   AgentAuthorization                        agent      agents; no other key, because they receive the secrets of endpoints
 * ```
 */
import type { HttpApiEndpoint } from "effect/http-api"
import {
  AgentAuthorization,
  ControlAuthorization,
  JobsAuthorization,
  KeysAuthorization,
  WorkerAuthorization
} from "./Authorization.ts"
import { jobScopeOf, type JobsScope, type KeyScope } from "./control/AccessKey.ts"
import { ViewerAuthorization } from "./control/OverviewApi.ts"
import { BulkAuthorization } from "./jobs/BulkApi.ts"
import { OpenAiAuthorization } from "./OpenAiApi.ts"

/** A guard of the server. */
export type Guard = "caller" | "viewer" | "manager" | "operator" | "owner" | "worker" | "agent"

/** The scopes that pass a guard: a key needs one of them. */
export const GUARD_SCOPES: { readonly [guard in Exclude<Guard, "caller">]: ReadonlyArray<KeyScope> } = {
  viewer: ["admin", "deploy", "jobs", "jobs:read"],
  manager: ["admin", "jobs", "jobs:manage"],
  operator: ["admin", "deploy"],
  owner: ["admin"],
  worker: ["worker"],
  agent: ["agent"]
}

/** Like {@link GUARD_SCOPES}, for the guard of callers, by the scope of the operation. */
export const CALLER_SCOPES: { readonly [scope in JobsScope]: ReadonlyArray<KeyScope> } = {
  "jobs:submit": ["admin", "jobs", "jobs:submit"],
  "jobs:read": ["admin", "jobs", "jobs:read"],
  "jobs:manage": ["admin", "jobs", "jobs:manage"]
}

/** The guard of an operation on the jobs of several endpoints. */
export const bulkGuardOf = (operation: string): "viewer" | "manager" =>
  jobScopeOf(operation) === "jobs:read" ? "viewer" : "manager"

/** Which keys an operation accepts. */
export interface Permission {
  readonly guard: Guard
  readonly scopes: ReadonlyArray<KeyScope>
}

/** The guard that each middleware implements, by the middleware's key. */
const guards: ReadonlyMap<string, (operation: string) => Guard> = new Map<string, (operation: string) => Guard>([
  [JobsAuthorization.key, () => "caller"],
  [OpenAiAuthorization.key, () => "caller"],
  [BulkAuthorization.key, bulkGuardOf],
  [ViewerAuthorization.key, () => "viewer"],
  [ControlAuthorization.key, () => "operator"],
  [KeysAuthorization.key, () => "owner"],
  [WorkerAuthorization.key, () => "worker"],
  [AgentAuthorization.key, () => "agent"]
])

/** The keys that an operation accepts; undefined: it needs no key. */
export const permissionOf = ({ identifier, middlewares }: HttpApiEndpoint.Top): Permission | undefined => {
  const [guardOf] = [...middlewares].flatMap(({ key }) => guards.get(key) ?? [])
  if (guardOf === undefined) return undefined
  const guard = guardOf(identifier)
  return { guard, scopes: guard === "caller" ? CALLER_SCOPES[jobScopeOf(identifier)] : GUARD_SCOPES[guard] }
}
