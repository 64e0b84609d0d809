/**
 * What the authorization matrix expects: the permission that each operation of the OpenAPI document declares in the contract, and the few
 * operations that name an endpoint outside their path.
 */
import type { KeyScope } from "@stint/contract/AccessKey"
import { Api } from "@stint/contract/Api"
import { type Permission, permissionOf } from "@stint/contract/Permission"
import { HttpApi } from "effect/http-api"
import { OPERATIONS } from "./OpenApiResponses.ts"

/** An operation and who may call it. */
export interface Rule {
  /** `jobs.run`, as in the OpenAPI document. */
  readonly id: string
  readonly method: string
  /** `/v2/{endpoint}/run`. */
  readonly template: string
  /** Undefined: no key is needed. */
  readonly permission: Permission | undefined
}

const declared: ReadonlyMap<string, Omit<Rule, "method" | "template">> = (() => {
  const found = new Map<string, Omit<Rule, "method" | "template">>()
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group }) => {
      const template = endpoint.path.replaceAll(/:(\w+)/g, "{$1}").replace("*", "{route}")
      found.set(`${endpoint.method} ${template}`, {
        id: `${group.identifier}.${endpoint.identifier}`,
        permission: permissionOf(endpoint)
      })
    }
  })
  return found
})()

/** Every operation of the OpenAPI document. */
export const RULES: ReadonlyArray<Rule> = OPERATIONS.map(({ method, name, template }) => {
  const known = declared.get(name)
  if (known === undefined) throw new Error(`${name} is in the document but not in the contract`)
  return { ...known, method, template }
})

/** The operations without a key, with the reason. */
export const OPEN: Readonly<Record<string, string>> = {
  "probes.healthz": "Load balancers and supervisors have no key, and the response shows only that the platform runs.",
  "probes.readyz": "The same; the response shows whether the platform is ready.",
  "builds.buildHook":
    "Git hosts have no key: the server checks the signature of the request instead. It responds to an unknown endpoint as to a wrong signature."
}

/** An operation that names an endpoint in its query or its body, which a key that is limited to other endpoints must not use. */
export interface Named {
  /** The query, or the body. */
  readonly query?: (endpoint: string) => string
  readonly body?: (endpoint: string) => string
  /** `forbidden`: 403. `filtered`: the response contains nothing about the endpoint. */
  readonly answer: "forbidden" | "filtered"
}

const search = (endpoint: string) => `?query=${encodeURIComponent(`endpoint:${endpoint}`)}`
const endpointQuery = (endpoint: string) => `?endpoint=${endpoint}`

/** The operations that take an endpoint in their query or body. */
export const NAMED: Readonly<Record<string, Named>> = {
  "bulk.searchJobs": { query: search, answer: "forbidden" },
  "bulk.countJobs": { query: search, answer: "forbidden" },
  "bulk.startBulk": {
    // A failed job cannot be cancelled, so an admitted request starts nothing.
    body: (endpoint) => JSON.stringify({ action: "cancel", query: `endpoint:${endpoint} status:failed` }),
    answer: "forbidden"
  },
  "errors.listErrors": { query: endpointQuery, answer: "forbidden" },
  "events.streamEvents": { query: endpointQuery, answer: "forbidden" },
  "usage.getUsage": { query: endpointQuery, answer: "filtered" }
}

/**
 * Operations without an endpoint in their URL that have a query or a body, but no endpoint in them. Operators have keys for all endpoints, so
 * only operations that keys with limits can call are listed. An agent's report names the endpoints of its workers; the platform ends those that the key does
 * not permit.
 */
export const UNNAMED: ReadonlySet<string> = new Set(["agentCalls.reportAgent", "bulk.cancelBulk"])

/** Operations that would remove what the matrix uses. They are called only where they are refused, and with endpoints that do not exist. */
export const DESTRUCTIVE: ReadonlySet<string> = new Set(["control.deleteEndpoint", "control.drainWorker", "control.stopWorker"])

/** Operations on the fast path, which are also called with a URL that takes the router path. */
export const FAST: ReadonlySet<string> = new Set([
  "jobs.run",
  "jobs.runsync",
  "workers.jobTake",
  "workers.jobTakeBatch",
  "workers.jobStop",
  "workers.jobDone",
  "workers.ping",
  "workers.pingByPost"
])

/** The endpoint that a request addresses, as seen by a key that is limited to `own` and `gone`. */
export const PLACES = ["own", "other", "gone", "missing"] as const
export type Place = (typeof PLACES)[number]

const isPermitted = (place: Place) => place === "own" || place === "gone"

/** Whether a request to this operation addresses one endpoint. */
export const addressesEndpoint = ({ id, template }: Pick<Rule, "id" | "template">): boolean =>
  template.includes("{endpoint}") || id in NAMED

/** The wanted result for a valid key: `allowed` is any status but 401 and 403. */
export const wantedFor = (
  { id, permission }: Rule,
  scopes: ReadonlyArray<KeyScope>,
  isLimited: boolean,
  place: Place
): "allowed" | "refused" => {
  if (permission === undefined) return "allowed"
  if (!permission.scopes.some((scope) => scopes.includes(scope))) return "refused"
  // Keys of operators are valid for every endpoint.
  if (!isLimited || isPermitted(place)) return "allowed"
  return NAMED[id]?.answer === "filtered" ? "allowed" : "refused"
}
