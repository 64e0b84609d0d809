/**
 * Calls the platform that serves this page. The session's cookie authenticates the calls, so no code here has the key.
 *
 * The types come from the contract. The responses are not validated, because the page and the server are built together.
 */
import type { AccessKey } from "@stint/contract/AccessKey"
import type { AlertList } from "@stint/contract/Alert"
import type { AuditPage } from "@stint/contract/AuditApi"
import type { Build, BuildSettings } from "@stint/contract/Build"
import type { BulkAction, BulkOperation } from "@stint/contract/Bulk"
import type { JobCount, SearchPage } from "@stint/contract/BulkApi"
import type { Endpoint, EndpointSpec } from "@stint/contract/Endpoint"
import type { ErrorGroup, ErrorGroupList } from "@stint/contract/ErrorGroup"
import type { EndpointSchema } from "@stint/contract/HandlerSchema"
import type { JobPage } from "@stint/contract/JobList"
import type { FoundLogPage } from "@stint/contract/JobLogLine"
import type { ExplainedJob } from "@stint/contract/JobsApi"
import type { EndpointDetail, Overview } from "@stint/contract/OverviewApi"
import type { CanaryStatus, Release, ReleasePreview, ReleaseSpec } from "@stint/contract/Release"
import type { WebhookDeliveryLine } from "@stint/contract/WebhooksApi"
import { reportReachable, reportUnreachable } from "../live/Connection.ts"

/** The session: who is logged in, and what the key permits. */
export interface Session {
  readonly id: string
  readonly name: string
  readonly scopes: ReadonlyArray<string>
  readonly endpoints: "all" | ReadonlyArray<string>
}

/** A failed call: what is wrong, and what to do. */
export class ApiError extends Error {
  readonly status: number
  readonly hint: string
  constructor(status: number, message: string, hint: string) {
    super(message)
    this.name = "ApiError"
    this.status = status
    this.hint = hint
  }
}

const textOf = (value: unknown, key: string): string | undefined => {
  const found: unknown = typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined
  return typeof found === "string" ? found : undefined
}

/** The problem in an error response (docs/spec/errors.md). */
export const problemOf = (status: number, text: string): ApiError => {
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    body = undefined
  }
  return new ApiError(
    status,
    textOf(body, "error") ?? `The platform responded with status ${status}.`,
    textOf(body, "hint") ?? "Try again. If it persists, look at the platform's log."
  )
}

/** Calls an operation. Returns the text of the response, or fails with an `ApiError`. */
export const call = async (
  method: string,
  path: string,
  options: { readonly json?: unknown; readonly signal?: AbortSignal } = {}
) => {
  const response = await fetch(path, {
    method,
    headers: { accept: "application/json", ...(options.json === undefined ? {} : { "content-type": "application/json" }) },
    ...(options.json === undefined ? {} : { body: JSON.stringify(options.json) }),
    ...(options.signal === undefined ? {} : { signal: options.signal })
  }).catch((cause: unknown) => {
    if (options.signal?.aborted === true) throw cause
    reportUnreachable()
    throw new ApiError(0, "The platform cannot be reached.", "Check that it is running. This page retries automatically.")
  })
  reportReachable()
  const text = await response.text()
  if (!response.ok) throw problemOf(response.status, text)
  return text
}

/** Reads the JSON of an operation. */
export const read = async <A>(path: string, signal?: AbortSignal): Promise<A> => {
  const value: A = JSON.parse(await call("GET", path, signal === undefined ? {} : { signal }))
  return value
}

/** A part of a path. */
export const part = encodeURIComponent

/** `?a=1&b=2` of the values that are set. */
export const queryOf = (values: Readonly<Record<string, string | number | undefined>>): string => {
  const query = new URLSearchParams()
  for (const [key, value] of Object.entries(values)) if (value !== undefined && value !== "") query.set(key, String(value))
  return query.size === 0 ? "" : `?${query.toString()}`
}

/** The session of this browser. */
export const session = (signal?: AbortSignal) => read<Session>("/api/v1/session", signal)

/** Logs in. The key is sent once, and never stored by the page. */
export const login = async (key: string): Promise<Session> => {
  const value: Session = JSON.parse(await call("POST", "/api/v1/session", { json: { key } }))
  return value
}

/** Logs out. */
export const logout = () => call("DELETE", "/api/v1/session")

/** The state of all endpoints that the key permits. */
export const overview = (signal?: AbortSignal) => read<Overview>("/api/v1/overview", signal)

/** The alerts that fire now. */
export const alerts = (signal?: AbortSignal) => read<AlertList>("/api/v1/alerts", signal)

/** The state of one endpoint, with its workers. */
export const endpointDetail = (endpoint: string, signal?: AbortSignal) =>
  read<EndpointDetail>(`/api/v1/overview/${part(endpoint)}`, signal)

/** Gives a worker no more jobs, or ends it at once. Needs the scope `deploy`. */
export const removeWorker = (endpoint: string, worker: string, how: "drain" | "stop") =>
  call("POST", `/api/v1/endpoints/${part(endpoint)}/workers/${part(worker)}/${how}`)

/** The settings of an endpoint. Needs the scope `deploy`. */
export const settings = (endpoint: string, signal?: AbortSignal) => read<Endpoint>(`/api/v1/endpoints/${part(endpoint)}`, signal)

/** The newest releases of an endpoint, and how the attempts of a canary ended. Needs the scope `deploy`. */
export const releases = (endpoint: string, signal?: AbortSignal) =>
  read<{ readonly releases: ReadonlyArray<Release>; readonly canary?: CanaryStatus }>(
    `/api/v1/endpoints/${part(endpoint)}/releases`,
    signal
  )

/** What a deployment would change. */
export const previewRelease = async (endpoint: string, spec: EndpointSpec, signal?: AbortSignal): Promise<ReleasePreview> => {
  const path = `/api/v1/endpoints/${part(endpoint)}/releases/preview`
  const value: ReleasePreview = JSON.parse(
    await call("POST", path, { json: { spec }, ...(signal === undefined ? {} : { signal }) })
  )
  return value
}

/** Deploys a release. Fails when another release than `expected` is active. */
export const deployRelease = async (
  endpoint: string,
  { expected, message, spec }: Required<Omit<ReleaseSpec, "canary">>
): Promise<Release> => {
  const json = { spec, expected, ...(message === "" ? {} : { message }) }
  const value: Release = JSON.parse(await call("POST", `/api/v1/endpoints/${part(endpoint)}/releases`, { json }))
  return value
}

/** Makes the canary the release of all jobs. */
export const promote = (endpoint: string) => call("POST", `/api/v1/endpoints/${part(endpoint)}/promote`)

/** Deploys the settings and the code of an earlier release. Without a number, it ends a rollout or a canary. */
export const rollback = (endpoint: string, to?: number) =>
  call("POST", `/api/v1/endpoints/${part(endpoint)}/rollback`, { json: to === undefined ? {} : { to } })

const buildsPath = (endpoint: string) => `/api/v1/endpoints/${part(endpoint)}/builds`

/** How an endpoint is built; null if it is not built from a repository. Needs the scope `deploy`. */
export const buildSettings = async (endpoint: string, signal?: AbortSignal): Promise<BuildSettings | null> => {
  try {
    return await read<BuildSettings>(`/api/v1/endpoints/${part(endpoint)}/build-settings`, signal)
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null
    throw error
  }
}

/** Replaces how an endpoint is built. The endpoint need not exist. */
export const saveBuildSettings = (endpoint: string, settings: BuildSettings) =>
  call("PUT", `/api/v1/endpoints/${part(endpoint)}/build-settings`, { json: settings })

/** The newest builds of an endpoint. */
export const builds = (endpoint: string, signal?: AbortSignal) =>
  read<{ readonly builds: ReadonlyArray<Build> }>(buildsPath(endpoint), signal)

/** Builds the repository with the current build settings, and deploys the image. */
export const startBuild = (endpoint: string) => call("POST", buildsPath(endpoint), { json: {} })

/** Stops a build. */
export const cancelBuild = (endpoint: string, build: number) => call("POST", `${buildsPath(endpoint)}/${build}/cancel`)

/** Deploys the image of an earlier build. */
export const deployBuild = (endpoint: string, build: number) => call("POST", `${buildsPath(endpoint)}/${build}/deploy`)

/** The log of a build as Server-Sent Events. */
export const buildLogPath = (endpoint: string, build: number) => `${buildsPath(endpoint)}/${build}/log-events`

/** What the handler of an endpoint takes and returns; null if no worker has reported it. */
export const handlerSchema = async (endpoint: string, signal?: AbortSignal): Promise<EndpointSchema | null> => {
  const text = await call("GET", `/v2/${part(endpoint)}/schema`, signal === undefined ? {} : { signal })
  const value: EndpointSchema | null = text === "" ? null : JSON.parse(text)
  return value
}

/** The newest jobs of an endpoint. */
export const jobs = (endpoint: string, limit: number, signal?: AbortSignal) =>
  read<JobPage>(`/v2/${part(endpoint)}/requests${queryOf({ limit })}`, signal)

/** A page of the jobs that match a query, newest first. */
export const searchJobs = (query: string, limit: number, cursor: string | undefined, signal?: AbortSignal) =>
  read<SearchPage>(`/api/v1/jobs${queryOf({ query, limit, cursor })}`, signal)

/** The number of jobs that a bulk operation would change. */
export const countJobs = (query: string, action: BulkAction, signal?: AbortSignal) =>
  read<JobCount>(`/api/v1/jobs/count${queryOf({ query, action })}`, signal)

/** The bulk operations that the key may see, newest first. */
export const bulkOperations = (signal?: AbortSignal) =>
  read<{ readonly operations: ReadonlyArray<BulkOperation> }>("/api/v1/bulk", signal)

/** Starts a bulk operation. Needs the scope `jobs:manage`. */
export const startBulk = (action: BulkAction, query: string) => call("POST", "/api/v1/bulk", { json: { action, query } })

/** Cancels or stops a bulk operation. */
export const cancelBulk = (id: string) => call("POST", `/api/v1/bulk/${part(id)}/cancel`)

/** The failures, grouped by error, most recently seen first. */
export const errors = (query: Readonly<Record<string, string | number | undefined>>, signal?: AbortSignal) =>
  read<ErrorGroupList>(`/api/v1/errors${queryOf(query)}`, signal)

const errorPath = ({ endpoint, fingerprint }: Pick<ErrorGroup, "endpoint" | "fingerprint">) =>
  `/api/v1/errors/${part(endpoint)}/${part(fingerprint)}`

/** Marks a group's fault as fixed. Needs the scope `jobs:manage`. */
export const resolveError = (group: Pick<ErrorGroup, "endpoint" | "fingerprint">) => call("POST", `${errorPath(group)}/resolve`)

/** Undoes {@link resolveError}. */
export const reopenError = (group: Pick<ErrorGroup, "endpoint" | "fingerprint">) => call("POST", `${errorPath(group)}/reopen`)

/** A page of the log lines of all jobs of an endpoint, newest first. */
export const searchLogs = (
  endpoint: string,
  query: Readonly<Record<string, string | number | undefined>>,
  signal?: AbortSignal
) => read<FoundLogPage>(`/v2/${part(endpoint)}/logs${queryOf(query)}`, signal)

/** A job, and why it has its status. */
export const explained = (endpoint: string, id: string, signal?: AbortSignal) =>
  read<ExplainedJob>(`/v2/${part(endpoint)}/status/${part(id)}?explain`, signal)

/** A job with its input, as the caller sent it. */
export const withInput = (endpoint: string, id: string, signal?: AbortSignal) =>
  read<ExplainedJob>(`/v2/${part(endpoint)}/status/${part(id)}?input`, signal)

/** A page of the webhook deliveries of an endpoint, or of one job, newest first. Needs the scope `deploy`. */
export const deliveries = (
  endpoint: string,
  query: Readonly<Record<string, string | number | undefined>>,
  signal?: AbortSignal
) =>
  read<{ readonly deliveries: ReadonlyArray<WebhookDeliveryLine>; readonly cursor: string | null }>(
    `/api/v1/endpoints/${part(endpoint)}/webhooks/deliveries${queryOf(query)}`,
    signal
  )

/** Sends a delivery again now, with the same `webhook-id`. Needs the scope `deploy`. */
export const resendDelivery = (endpoint: string, delivery: string) =>
  call("POST", `/api/v1/endpoints/${part(endpoint)}/webhooks/deliveries/${part(delivery)}/resend`)

/** A page of the audit, newest first. Needs the scope `admin`. */
export const audit = (query: Readonly<Record<string, string | number | undefined>>, signal?: AbortSignal) =>
  read<AuditPage>(`/api/v1/audit${queryOf(query)}`, signal)

/** The access keys. Needs the scope `admin`. */
export const keys = (signal?: AbortSignal) => read<{ readonly keys: ReadonlyArray<AccessKey> }>("/api/v1/keys", signal)

/** Revokes a key, permanently. */
export const revokeKey = (key: string) => call("POST", `/api/v1/keys/${part(key)}/revoke`, { json: {} })
