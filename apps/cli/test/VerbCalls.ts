/**
 * A call of every CLI command with every flag, and the platform's responses to these calls.
 *
 * `Verbs.test.ts` compares what the commands send with the OpenAPI document, `TerminalOutput.test.ts` puts hostile text into the responses.
 */
import { Api } from "@stint/contract/Api"
import { OpenApi } from "effect/http-api"
import * as Predicate from "effect/Predicate"
import { mkdtemp, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"

/** The APIs that the command line covers. Workers call the worker API, and programs the OpenAI route. */
const GROUPS = [
  "jobs",
  "logs",
  "runs",
  "batches",
  "bulk",
  "errors",
  "control",
  "releases",
  "builds",
  "keys",
  "webhooks",
  "models",
  "audit",
  "usage",
  "events",
  "agents",
  "alerts",
  "schedules",
  "overview"
]

/** An operation of the OpenAPI document. */
export interface Operation {
  readonly id: string
  readonly method: string
  readonly path: RegExp
  /** The query parameters, and the members of the body down to the leaves: `policy.retry.maxAttempts`. */
  readonly options: ReadonlySet<string>
}

/** The OpenAPI document. */
export const document: unknown = OpenApi.fromApi(Api)

/** The member of a value under these keys; undefined when there is none. */
export const at = (value: unknown, ...keys: ReadonlyArray<string>): unknown =>
  keys.reduce<unknown>((found, key) => Predicate.hasProperty(found, key) ? found[key] : undefined, value)

/** The members of an object; none for any other value. */
export const entries = (value: unknown): ReadonlyArray<readonly [string, unknown]> =>
  Predicate.isObject(value) ? Object.entries(value) : []

/** The elements of an array; none for any other value. */
export const list = (value: unknown): ReadonlyArray<unknown> => Array.isArray(value) ? value : []

/** The paths of the leaves of a JSON Schema. Arrays and maps are leaves. */
const leavesOf = (schema: unknown, path = ""): ReadonlyArray<string> => {
  const reference = at(schema, "$ref")
  if (typeof reference === "string") return leavesOf(at(document, ...reference.replace("#/", "").split("/")), path)
  const parts = [...list(at(schema, "anyOf")), ...list(at(schema, "oneOf")), ...list(at(schema, "allOf"))]
  const below = [
    ...parts.flatMap((part) => leavesOf(part, path)),
    ...entries(at(schema, "properties")).flatMap(([name, one]) => leavesOf(one, path === "" ? name : `${path}.${name}`))
  ].filter((leaf) => leaf !== path)
  return below.length === 0 ? [path] : below
}

/** The operations that the command line covers. */
export const operations: ReadonlyArray<Operation> = entries(at(document, "paths")).flatMap(([template, methods]) =>
  entries(methods).flatMap(([method, operation]) => {
    const id = String(at(operation, "operationId"))
    if (!GROUPS.includes(id.split(".")[0] ?? "")) return []
    const query = list(at(operation, "parameters")).filter((one) => at(one, "in") === "query").map((one) =>
      String(at(one, "name"))
    )
    const body = entries(at(operation, "requestBody", "content")).flatMap(([, media]) => leavesOf(at(media, "schema")))
    return [{
      id,
      method: method.toUpperCase(),
      path: new RegExp(`^${template.replaceAll(/\{[^}]+\}/g, "[^/]+")}$`),
      options: new Set([...query, ...body].filter((leaf) => leaf !== ""))
    }]
  })
)

const ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
const KEY = "0123456789abcdef"
const BATCH = `batch_${ID}`
const job = { id: ID, status: "COMPLETED", output: 1 }
const receipt = { id: ID, status: "IN_QUEUE" }
/** The response to operations that are not in {@link RESPONSES}. */
export const batch = {
  id: BATCH,
  endpointId: "e",
  status: "DRAFT",
  requestTotal: 1,
  requestInProgress: 0,
  requestCompleted: 0,
  requestFailed: 0,
  requestCancelled: 0,
  createdAt: 0
}
const key = {
  id: KEY,
  prefix: `stint_${KEY}`,
  name: "k",
  scopes: ["jobs"],
  endpoints: ["e"],
  status: "ACTIVE",
  createdAt: 0,
  rateLimit: { limit: 1, perMs: 1_000 }
}
const agent = {
  name: "rack-1",
  state: "connected",
  since: 0,
  lastSeenAt: 0,
  version: "1.0.0",
  capacity: { workers: 4, cpus: 2, memoryBytes: 1_000_000_000, gpus: 0 },
  supports: ["handler", "command"],
  volumes: ["shared"],
  labels: { gpu: "a100" },
  key: KEY,
  endpoints: "all",
  workers: [{ id: "w-1", endpoint: "e", state: "running" }]
}
const delivery = {
  id: "d",
  job: ID,
  endpoint: "e",
  event: "completed",
  url: "http://a.b",
  state: "pending",
  attemptCount: 0,
  createdAt: 0,
  nextAt: 0,
  lastStatus: null,
  lastError: null
}
const endpoint = { id: "e", source: { type: "external" }, createdAt: 0, release: 2 }
const release = {
  endpoint: "e",
  number: 2,
  createdAt: 0,
  createdBy: "configuration",
  settings: { id: "e", source: { type: "external" } },
  state: "active",
  activatedAt: 0
}
const buildSettings = { repository: "https://a.b/c.git" }
const build = {
  endpoint: "e",
  number: 3,
  state: "succeeded",
  createdAt: 0,
  createdBy: "the key \"ci\"",
  trigger: "manual",
  settings: buildSettings,
  warnings: [],
  release: 2
}
const pulled = { model: "acme/whisper@v2", state: "downloading", receivedBytes: 0 }
const cachedModel = {
  model: "acme/whisper",
  commit: "c0ffee",
  revisions: ["v2"],
  files: 2,
  bytes: 1_000,
  lastUsedAt: 0,
  workers: 0,
  endpoints: ["e"]
}
const schedule = {
  endpoint: "e",
  name: "nightly",
  spec: { cron: "0 3 * * *" },
  paused: false,
  createdAt: 0,
  updatedAt: 0,
  updatedBy: "the key \"ci\"",
  next: [1, 2],
  waiting: [3],
  last: { scheduledFor: 0, at: 0, trigger: "time", outcome: "failed", reason: "no endpoint" }
}
const bulk = {
  id: ID,
  action: "retry",
  query: "status:failed",
  state: "done",
  createdAt: 0,
  createdBy: "the key \"ops\"",
  startsAt: 0,
  endedAt: 1,
  matched: { count: 2, more: false },
  done: 1,
  skipped: { changed: 1, missing: 0, endpoint: 0 },
  failed: 0,
  problems: [{ endpoint: "e", job: ID, reason: "the endpoint e has 9 waiting jobs" }]
}
const errorGroup = {
  endpoint: "e",
  fingerprint: KEY,
  state: "resolved",
  type: "TypeError",
  message: "no user <value>",
  frames: ["find (users.ts)"],
  count: 2,
  firstSeen: 0,
  lastSeen: 1,
  firstRelease: 2,
  releases: [{ release: 2, count: 1, firstSeen: 0, lastSeen: 0 }, { count: 1, firstSeen: 1, lastSeen: 1 }],
  jobs: [ID],
  resolved: { at: 2, by: "the key \"ops\"", release: 2 },
  reopenedAt: 1
}
const worker = {
  id: "w",
  state: "draining",
  jobs: [ID, ID, ID],
  slots: 4,
  firstSeenAt: 0,
  lastSeenAt: 0,
  leaving: "drain",
  external: true,
  results: 1
}
const overview = {
  id: "e",
  source: "external",
  jobs: { waiting: 0, delayed: 0, running: 3, completed: 1, failed: 0 },
  workers: { max: null, idle: 0, initializing: 0, running: 0, draining: 1, throttled: 0, unhealthy: 0 }
}
const counts = { completed: 0, failed: 0, inProgress: 0, inQueue: 0, retried: 0 }
const workers = { idle: 0, initializing: 0, ready: 0, running: 0, throttled: 0, unhealthy: 0 }

/** The responses by operation. */
export const RESPONSES: Readonly<Record<string, unknown>> = {
  "agents.listAgents": { agents: [agent], local: { workers: 1, limit: 2, labels: {} } },
  "agents.drainAgent": agent,
  "agents.resumeAgent": agent,
  "alerts.listAlerts": { configured: true, alerts: [], receivers: [] },
  "alerts.testAlerts": { receivers: [] },
  "audit.listAudit": { entries: [], cursor: null },
  "usage.getUsage": {
    from: 1_790_000_000_000,
    to: 1_790_003_600_000,
    by: "key",
    step: "day",
    currency: "EUR",
    rows: [{
      from: 1_790_000_000_000,
      key: "ci",
      attempts: 1,
      executionSeconds: 1.5,
      workerSeconds: 10,
      cpuSeconds: 2,
      gpuSeconds: 0,
      cost: 0.5
    }],
    total: { attempts: 1, executionSeconds: 1.5, workerSeconds: 10, cpuSeconds: 2, gpuSeconds: 0, cost: 0.5 },
    budgets: [{ scope: "endpoint", id: "e", period: "monthly", limit: 50, spent: 51, reached: true, renewsAt: 1_790_812_800_000 }]
  },
  "jobs.run": receipt,
  "jobs.status": { ...job, status: "IN_PROGRESS" },
  "jobs.statusSync": job,
  "jobs.stream": { ...job, stream: [] },
  "jobs.requests": { requests: [], cursor: null },
  "jobs.cancel": receipt,
  "jobs.retry": receipt,
  "jobs.purgeQueue": { removed: 0, status: "completed" },
  "jobs.health": { jobs: counts, workers },
  "jobs.schema": { input: {}, output: {}, streams: false, reportedAt: 0 },
  "logs.logs": { lines: [], cursor: 0, more: false },
  "logs.searchLogs": { lines: [], cursor: null, searched: 0 },
  "runs.sendEvent": { delivered: ID },
  "runs.steps": {
    run: ID,
    status: "IN_PROGRESS",
    phase: "doing",
    definition: "a".repeat(64),
    steps: [{ path: "charge", kind: "step", state: "completed", input: { value: 1 }, output: 2 }]
  },
  "runs.definition": { name: "orders", nodes: [{ address: "charge", kind: "step" }] },
  "runs.definitions": { definitions: [{ hash: "a".repeat(64), definedAt: 0, open: 1, held: 0 }] },
  "runs.compareDefinition": {
    open: 1,
    continuing: 0,
    waiting: 1,
    nodes: [{ definition: "a".repeat(64), node: "charge", change: "removed", waiting: 1, reason: "gone", example: ID }],
    added: ["pay"]
  },
  "batches.createBatch": { id: BATCH, status: "DRAFT" },
  "batches.listBatches": [batch],
  "batches.batchRequests": { requests: [], total: 0, offset: 0, limit: 50, hasMore: false },
  "bulk.searchJobs": { jobs: [], cursor: null },
  "bulk.countJobs": { count: 2, more: false },
  "bulk.listBulk": { operations: [bulk] },
  "bulk.startBulk": bulk,
  "bulk.getBulk": bulk,
  "bulk.cancelBulk": bulk,
  "errors.listErrors": { groups: [errorGroup], more: true, removed: [{ endpoint: "e", groups: 2 }] },
  "errors.getError": {
    ...errorGroup,
    samples: [{ id: ID, status: "FAILED", createdAt: 0, attempt: 1, priority: 0, tags: [], error: "no user 'ann'" }]
  },
  "errors.resolveError": errorGroup,
  "errors.reopenError": errorGroup,
  "control.listEndpoints": { endpoints: [endpoint] },
  "control.createEndpoint": endpoint,
  "control.getEndpoint": endpoint,
  "control.putEndpoint": endpoint,
  "control.drainWorker": worker,
  "control.stopWorker": { ...worker, external: undefined, leaving: "stop" },
  "overview.overview": { endpoints: [overview] },
  "overview.overviewOfEndpoint": { ...overview, list: [worker] },
  "control.workerEnv": { variables: { PLATFORM_POD_ID: "w" } },
  "releases.listReleases": { releases: [release, { ...release, number: 1 }] },
  "releases.getRelease": release,
  "releases.deployRelease": release,
  "releases.previewRelease": { active: 2, settings: [], code: { added: [], removed: [], changed: [] }, changes: true },
  "releases.rollback": release,
  "releases.promote": release,
  "builds.getBuildSettings": buildSettings,
  "builds.setBuildSettings": buildSettings,
  "builds.listBuilds": { builds: [build] },
  "builds.startBuild": build,
  "builds.getBuild": build,
  "builds.buildLogs": { lines: [], cursor: 0, more: false },
  "builds.cancelBuild": build,
  "builds.deployBuild": release,
  "keys.listKeys": { keys: [key] },
  "keys.createKey": { key, secret: "s" },
  "keys.getKey": key,
  "keys.patchKey": key,
  "keys.rotateKey": { key, secret: "s" },
  "keys.revokeKey": { ...key, issued: [] },
  "models.listModels": { folder: "/models", hub: "https://a.b", bytes: 1_000, models: [cachedModel], downloads: [] },
  "models.pullModel": pulled,
  "models.removeModel": { freedBytes: 1_000 },
  "schedules.listSchedules": { schedules: [schedule] },
  "schedules.getSchedule": schedule,
  "schedules.putSchedule": schedule,
  "schedules.pauseSchedule": schedule,
  "schedules.resumeSchedule": schedule,
  "schedules.runSchedule": receipt,
  "webhooks.listDeliveries": { deliveries: [], cursor: null },
  "webhooks.getDelivery": { ...delivery, body: {}, attempts: [] },
  "webhooks.resendDelivery": delivery,
  "webhooks.getSecret": { endpoint: "e", secret: "s", createdAt: 0 },
  "webhooks.rotateSecret": { endpoint: "e", secret: "s", createdAt: 0 }
}

/** The statuses by operation; 200 for those that are not listed. */
export const STATUSES: Readonly<Record<string, number>> = {
  "jobs.events": 204,
  "events.streamEvents": 204,
  "builds.buildLogEvents": 204,
  "bulk.startBulk": 201,
  "control.createEndpoint": 201,
  "releases.rollback": 201,
  "builds.startBuild": 201,
  "builds.deployBuild": 201,
  "control.deleteEndpoint": 204,
  "models.pullModel": 202,
  "schedules.deleteSchedule": 204,
  "keys.createKey": 201
}

const RETRY = ["--retry-errors", "--backoff", "1s", "--backoff-factor", "3", "--backoff-max", "1m"]
const POLICY = ["--timeout", "10m", "--ttl", "1h", "--max-attempts", "3", "--low-priority", ...RETRY]
const SETTINGS = [
  ...["--workers-min", "1", "--workers-max", "2", "--idle-timeout", "5s", "--scale-after", "4s", "--execution-timeout", "10m"],
  ...["--ttl", "1h", "--lease", "30s", "--retention", "1d", "--max-attempts", "3", "--retry-attempts", "4", ...RETRY],
  ...[
    "--error-traceback",
    "none",
    "--lease-token",
    "required",
    "--rate-limit",
    "9",
    "--rate-per",
    "1m",
    "--rate-concurrent",
    "3"
  ],
  ...[
    "--limit-timeout",
    "1h",
    "--limit-ttl",
    "2h",
    "--limit-attempts",
    "5",
    "--limit-priority",
    "6",
    "--limit-start-delay",
    "7d"
  ],
  ...[
    "--limit-open-batches",
    "8",
    "--limit-batch-requests",
    "9",
    "--limit-waiting-jobs",
    "9",
    "--limit-stored-bytes",
    "5GB",
    "--env",
    "A=b"
  ],
  ...["--concurrency-key", "input.customer", "--concurrency-limit", "3"],
  ...["--warm", JSON.stringify({ min: 2, start: "0 8 * * 1-5", end: "0 18 * * 1-5" })]
]
const KEY_SETTINGS = [
  ...["--scope", "jobs", "--endpoint", "e", "--expires-in", "1d", "--limit", "1", "--per", "10s", "--concurrent", "2"],
  ...["--max-waiting-jobs", "5", "--max-stored-bytes", "5 GB"]
]

const CONTAINER = [
  ...["--model", "acme/whisper@main", "--model-token", "hf-token", "--placement-label", "gpu=a100"],
  ...["--image", "worker:1", "--command", "serve --fast", "--cpus", "1.5", "--memory", "1GiB", "--pids", "64", "--gpus", "all"],
  ...["--volume", "models:/models:ro", "--network", "jobs", "--user", "1000:1000"]
]

/** A configuration with every setting. */
const CONFIG = `export default {
  endpoints: {
    e: {
      command: ["python3", "handler.py"],
      cwd: ".",
      workers: { min: 1, max: 2, idleTimeout: "5 seconds", warm: [{ min: 2, start: "0 8 * * 1-5", end: "0 18 * * 1-5" }] },
      scaler: { type: "QUEUE_DELAY", after: "4 seconds" },
      executionTimeout: "10 minutes",
      ttl: "1 hour",
      lease: "30 seconds",
      maxAttempts: 3,
      retry: { maxAttempts: 4, onError: true, backoff: { initial: "1 second", factor: 3, max: "1 minute" } },
      retention: "1 day",
      concurrency: { key: "input.customer", limit: 3 },
      limits: { maxAttempts: 5, priority: 6, startDelay: "7 days", openBatches: 8, batchRequests: 9, waitingJobs: 9, storedBytes: "5 GB" },
      errorTraceback: "none",
      leaseToken: "required",
      rateLimit: { limit: 9, per: "1 minute", concurrent: 3 },
      model: "acme/whisper",
      modelToken: { secret: "hf-token" },
      placement: { labels: { gpu: "a100" } },
      env: { A: "b" }
    },
    f: { handler: "./HANDLER" },
    g: {
      image: "worker:1",
      command: ["--fast"],
      cpus: 1.5,
      memory: "1 GiB",
      pids: 64,
      gpus: 1,
      volumes: [{ source: "models", target: "/models", readOnly: true }],
      network: "jobs",
      user: "1000:1000"
    }
  }
}
`

/** A handler that sends its definition, as the worker of a pipeline does, and ends. */
const HANDLER = `const url = process.env.PLATFORM_WEBHOOK_GET_JOB
if (url !== undefined) {
  const definitions = [{ hash: "a".repeat(64), graph: { name: "f", nodes: [], input: "a", output: "b" } }]
  fetch(url.replace("/job-take/", "/run-journal/"), { method: "POST", body: JSON.stringify({ definitions, runs: [] }) })
}
`

/** Each command with every flag. `FILE`, `S3`, `HANDLER` and `CONFIG.mjs` are files. */
export const COMMANDS: ReadonlyArray<ReadonlyArray<string>> = [
  [
    ...["audit", "--since", "2d", "--action", "keys.createKey", "--key", "ci", "--target", "endpoint/e", "--result", "done"],
    ...["--limit", "5", "--cursor", "9"]
  ],
  ["usage", "e", "--by", "key", "--step", "day", "--since", "2d", "--until", "1d"],
  [
    ...["run", "e", "--input", "1", ...POLICY, "--priority", "5", "--tag", "a", "--tag", "b", "--webhook", "http://a.b"],
    ...["--webhook-event", "start", "--idempotency-key", "k", "--in", "10m", "--s3-config", "S3"]
  ],
  ["run", "e", "--input-file", "FILE", "--at", "2026-11-22T14:00:00Z", "--sync"],
  ["run", "e", "--input", "1", "--stream"],
  ["status", "e", ID, "--explain", "--input"],
  ["cancel", "e", ID],
  [
    ...[
      "jobs",
      "list",
      "e",
      "--status",
      "FAILED",
      "--tag",
      "a",
      "--created-after",
      "2026-11-22",
      "--created-before",
      "2026-11-23 10:00"
    ],
    ...["--limit", "5", "--cursor", "c"]
  ],
  ["jobs", "retry", "e", ID, "--from", "charge"],
  ["pipelines", "steps", "e", ID, "--after", "5", "--limit", "5"],
  ["pipelines", "steps", "e", ID, "--step", "charge"],
  ["pipelines", "event", "e", "approved", "--key", "7", "--data", "{\"by\":\"Ada\"}", "--id", "a", "--ttl", "1h"],
  ["pipelines", "graph", "e", ID],
  ["pipelines", "graph", "e", "--svg", "-"],
  ["pipelines", "list"],
  ["pipelines", "show", "e"],
  ["pipelines", "run", "e", "--input", "1"],
  ["pipelines", "diff", "--config", "CONFIG.mjs"],
  ["jobs", "status:failed", "--limit", "5", "--cursor", "v1.1.x"],
  ["jobs", "list", "e", "--query", "status:failed"],
  ["jobs", "retry", "--where", "status:failed", "--hold", "1s", "--yes"],
  ["jobs", "cancel", "--where", "tag:nightly", "--yes"],
  ["jobs", "rerun", "--where", "tag:nightly", "--yes"],
  ["jobs", "bulk", "list"],
  ["jobs", "bulk", "show", ID],
  ["jobs", "bulk", "cancel", ID],
  ["errors", "e", "--since-release", "latest", "--since", "2d", "--state", "open", "--limit", "5"],
  ["errors", "--release", "2"],
  ["errors", "show", "e", KEY],
  ["errors", "resolve", "e", KEY, "--release", "2"],
  ["errors", "reopen", "e", KEY],
  ["jobs", "purge", "e"],
  ["jobs", "events", "e", ID, "--kind", "chunk", "--after", "1.2.r"],
  ["health"],
  ["schema", "e"],
  ["agents"],
  ["agents", "drain", "rack-1"],
  ["agents", "resume", "rack-1"],
  ["alerts", "list"],
  ["alerts", "test"],
  ["events", "-f", "--endpoint", "e"],
  ["logs", "e", ID, "--after", "3", "--level", "warn", "--step", "charge", "--limit", "10"],
  ["logs", "e", "--contains", "x", "--level", "warn", "--since", "1h", "--limit", "10", "--cursor", "12.3"],
  ["batch", "create", "e", "FILE", "--name", "n", "--webhook", "http://a.b", ...POLICY],
  ["batch", "add", "e", BATCH, "FILE"],
  ["batch", "remove", "e", BATCH, ID],
  ["batch", "start", "e", BATCH],
  ["batch", "status", "e", BATCH],
  ["batch", "list", "e", "--limit", "5", "--offset", "5"],
  ["batch", "results", "e", BATCH, "--limit", "5", "--offset", "5"],
  ["batch", "update", "e", BATCH, "--name", "n", "--webhook", "http://a.b"],
  ["batch", "cancel", "e", BATCH],
  ["endpoints", "list"],
  ["endpoints", "show", "e"],
  ["endpoints", "create", "e", "--handler", "HANDLER"],
  ["endpoints", "create", "e", "--command", "python3 handler.py", "--cwd", ".", ...SETTINGS],
  ["endpoints", "update", "e", ...SETTINGS],
  ["endpoints", "create", "e", ...CONTAINER],
  ["endpoints", "update", "e", "--handler", "HANDLER"],
  ["endpoints", "update", "e", ...CONTAINER],
  ["endpoints", "update", "e", "--command", "python3 handler.py", "--cwd", "."],
  ["endpoints", "delete", "e"],
  ["endpoints", "create", "e", "--handler", "HANDLER", "--message", "m"],
  ["endpoints", "create", "e", "--command", "python3 handler.py", "--cwd", ".", "--message", "m", ...SETTINGS],
  ["endpoints", "update", "e", "--workers-max", "2", "--message", "m"],
  ["deploy", "--config", "CONFIG.mjs", "--yes"],
  ["deploy", "e", "--config", "CONFIG.mjs", "--message", "m", "--expected", "2", "--remove", "--yes"],
  ["deploy", "e", "--config", "CONFIG.mjs", "--canary", "10", "--canary-jobs", "60", "--canary-points", "2.5", "--yes"],
  ["releases", "e", "--limit", "5", "--before", "9"],
  ["releases", "show", "e", "2"],
  ["releases", "promote", "e", "--yes"],
  ["rollback", "e", "--to", "1", "--message", "m", "--yes"],
  ["build", "e", "--ref", "v1", "--message", "m"],
  ["build", "e", "--detach"],
  ["builds", "e", "--limit", "5", "--before", "9"],
  ["builds", "show", "e", "3"],
  ["builds", "logs", "e", "3", "--after", "4", "--limit", "10"],
  ["builds", "logs", "e", "3", "--follow"],
  ["builds", "cancel", "e", "3"],
  ["builds", "deploy", "e", "3"],
  ["builds", "settings", "e"],
  [
    ...[
      "builds",
      "settings",
      "e",
      "--repository",
      "https://a.b/c.git",
      "--ref",
      "main",
      "--dockerfile",
      "d/Dockerfile",
      "--context",
      "d"
    ],
    ...[
      "--handler",
      "d/h.py",
      "--base-image",
      "base:1",
      "--arg",
      "A=1",
      "--canary",
      "10",
      "--canary-jobs",
      "20",
      "--canary-points",
      "3",
      "--build-secret",
      "npm=npm-token",
      "--credential",
      "token"
    ],
    ...["--webhook-secret", "hook", "--on-push", "--timeout", "2h"]
  ],
  ["workers", "list"],
  ["workers", "list", "e"],
  ["workers", "drain", "e", "w"],
  ["workers", "stop", "e", "w", "--yes"],
  ["worker-env", "e", "--prefix", "RUNPOD_", "--worker", "w"],
  ["keys", "list"],
  ["keys", "show", KEY],
  ["keys", "create", "k", ...KEY_SETTINGS],
  ["keys", "update", KEY, "--name", "k", ...KEY_SETTINGS],
  ["keys", "rotate", KEY, "--grace", "1h"],
  ["keys", "revoke", KEY, "--with-issued"],
  ["models", "list"],
  ["models", "pull", "acme/whisper@v2", "--token", "hf-token"],
  ["models", "pull", "acme/whisper@v2", "--detach"],
  ["models", "remove", "acme/whisper"],
  ["schedules", "list", "e"],
  ["schedules", "show", "e", "nightly"],
  [
    ...["schedules", "set", "e", "nightly", "--cron", "0 3 * * *", "--time-zone", "Europe/Berlin", "--input", "1", ...POLICY],
    ...["--priority", "5", "--tag", "a", "--webhook", "http://a.b", "--webhook-event", "start", "--overlap", "queue"],
    ...["--catch-up", "all", "--catch-up-limit", "5", "--jitter", "10s"]
  ],
  ["schedules", "set", "e", "nightly", "--at", "2030-11-22T14:00:00Z", "--input-file", "FILE"],
  ["schedules", "pause", "e", "nightly"],
  ["schedules", "resume", "e", "nightly"],
  ["schedules", "run", "e", "nightly"],
  ["schedules", "remove", "e", "nightly"],
  ["webhooks", "list", "e", "--job", ID, "--state", "failed", "--limit", "5", "--cursor", "v1.1.d"],
  ["webhooks", "show", "e", "d"],
  ["webhooks", "resend", "e", "d"],
  ["webhooks", "secret", "e"],
  ["webhooks", "secret", "e", "--rotate", "--grace", "1h"]
]

/** Writes the files that {@link COMMANDS} name into a new folder. Returns the folder, and a function that puts their paths into arguments. */
export const makeFiles = async () => {
  const folder = await mkdtemp(join(tmpdir(), "stint-verbs-"))
  const files: Readonly<Record<string, string>> = {
    HANDLER,
    "CONFIG.mjs": CONFIG,
    FILE: "{\"input\":1}\n",
    S3: JSON.stringify({ accessId: "a", accessSecret: "b", endpointUrl: "c", bucketName: "d", objectPath: "e" })
  }
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  const withPaths = (args: ReadonlyArray<string>) => args.map((arg) => arg in files ? join(folder, arg) : arg)
  return { folder, withPaths }
}
