/**
 * Finds what is wrong with a platform. Pure: computes the conditions that hold now from an observation and the thresholds.
 *
 * | kind | holds while | fires after |
 * |---|---|---|
 * | `endpoint_failing` | at least `failedJobs` jobs failed in the window, and they make up at least `failedPercent` of the ended jobs | at once |
 * | `workers_failing` | a worker failed, and no worker of the endpoint is working | {@link WORKERS_FAILING_MILLIS} |
 * | `queue_old` | the oldest ready job has waited for `queueAge` | at once |
 * | `disk_low` | the store rejects new jobs for lack of space; only without a database | at once |
 * | `build_failed` | the last finished build failed | at once |
 * | `webhook_receiver_gone` | {@link RECEIVER_FAILURES} deliveries to a host used up their attempts in an hour, and none succeeded since | at once |
 * | `budget_reached` | an endpoint or a key has used its budget, so that new jobs are refused | at once |
 */
import type { Alert } from "@stint/contract/Alert"
import type { BudgetState } from "@stint/queue/Budgets"

/** When a condition holds. */
export interface Thresholds {
  /** Percent of the ended jobs. Cancelled jobs do not count. */
  readonly failedPercent: number
  /** A minimum, so that one failed job of two causes no alert. */
  readonly failedJobs: number
  /** The time over which jobs are counted. Milliseconds. */
  readonly windowMs: number
  /** Milliseconds. */
  readonly queueAgeMs: number
}

/** The defaults: an endpoint that fails half of its jobs, and a job that has waited longer than any cold start takes. */
export const defaults: Thresholds = {
  failedPercent: 50,
  failedJobs: 10,
  windowMs: 10 * 60_000,
  queueAgeMs: 15 * 60_000
}

/** One failed start is retried within seconds. Milliseconds. */
const WORKERS_FAILING_MILLIS = 60_000

/** Callers choose the addresses of webhooks, so a single mistyped address must not fire. */
const RECEIVER_FAILURES = 3

/** An endpoint's observed state. */
export interface EndpointObservation {
  readonly id: string
  /** Jobs that ended within the window, excluding cancelled jobs. */
  readonly ended: number
  /** How many of them failed or timed out. */
  readonly failed: number
  /** When the oldest ready job became ready. Milliseconds since 1970; null without one. */
  readonly oldestQueuedAt: number | null
  /** Why a worker failed; undefined when none has failed, or when another worker is working. */
  readonly workerProblem: string | undefined
  /** The last finished build, if it failed. */
  readonly failedBuild: { readonly build: number; readonly reason: string | undefined } | undefined
}

/** A webhook receiver. */
export interface HostObservation {
  readonly host: string
  /** Deliveries that failed permanently in the last hour and since the last success. */
  readonly failed: number
  readonly reason: string
}

/** A platform's state at one moment. */
export interface Observation {
  /** Milliseconds since 1970. */
  readonly now: number
  readonly endpoints: ReadonlyArray<EndpointObservation>
  readonly hosts: ReadonlyArray<HostObservation>
  readonly isDiskLow: boolean
  readonly budgets: ReadonlyArray<BudgetState>
}

/** Something that is wrong now. */
export interface Condition extends Omit<Alert, "id" | "firedAt"> {
  /** The alert fires when the condition has held for this time. Milliseconds. */
  readonly forMs: number
}

const inWords = (millis: number): string => {
  const minutes = Math.floor(millis / 60_000)
  if (minutes < 1) return `${Math.floor(millis / 1_000)} seconds`
  if (minutes < 120) return minutes === 1 ? "1 minute" : `${minutes} minutes`
  return `${Math.floor(minutes / 60)} hours`
}

/** The first line of a reason, with a full stop. A reason may be a worker's whole output. */
const firstLine = (text: string): string => {
  const line = (text.split("\n", 1)[0] ?? "").slice(0, 300)
  return /[.!?]$/.test(line) ? line : `${line}.`
}

const ofEndpoint = (
  { ended, failed, failedBuild, id, oldestQueuedAt, workerProblem }: EndpointObservation,
  now: number,
  { failedJobs, failedPercent, queueAgeMs, windowMs }: Thresholds
): ReadonlyArray<Condition> => {
  const conditions: Array<Condition> = []
  const add = (kind: Condition["kind"], summary: string, action: string, forMs = 0) =>
    conditions.push({ fingerprint: `${kind}/${id}`, kind, endpoint: id, summary, action, forMs })
  if (failed >= failedJobs && failed * 100 >= failedPercent * ended) {
    add(
      "endpoint_failing",
      `${failed} of ${ended} jobs of endpoint ${id} failed within ${inWords(windowMs)}.`,
      `Read their errors: stint jobs list ${id} --status FAILED. If they began with a release: stint rollback ${id}.`
    )
  }
  if (workerProblem !== undefined) {
    add(
      "workers_failing",
      `No worker of endpoint ${id} works: ${firstLine(workerProblem)}`,
      `Correct the cause and deploy again, or go back: stint rollback ${id}.`,
      WORKERS_FAILING_MILLIS
    )
  }
  if (oldestQueuedAt !== null && now - oldestQueuedAt >= queueAgeMs) {
    add(
      "queue_old",
      `The oldest waiting job of endpoint ${id} has waited for ${inWords(now - oldestQueuedAt)}.`,
      `Find out why it waits: stint jobs list ${id} --status IN_QUEUE, then stint status ${id} JOB --explain. More workers: stint endpoints update ${id} --workers-max N.`
    )
  }
  if (failedBuild !== undefined) {
    const reason = failedBuild.reason === undefined ? "." : `: ${firstLine(failedBuild.reason)}`
    add(
      "build_failed",
      `Build ${failedBuild.build} of endpoint ${id} failed${reason}`,
      `Read its log: stint builds logs ${id} ${failedBuild.build}. An active release keeps serving.`
    )
  }
  return conditions
}

const diskLow: Condition = {
  fingerprint: "disk_low",
  kind: "disk_low",
  summary: "The disk of the database has too little free space, so the platform rejects new jobs with 503. Stored jobs continue.",
  action: "Free space on the disk: the platform then accepts jobs again by itself. STINT_DISK_MIN_FREE is the threshold.",
  forMs: 0
}

const ofHost = ({ failed, host, reason }: HostObservation): Condition => ({
  fingerprint: `webhook_receiver_gone/${host}`,
  kind: "webhook_receiver_gone",
  summary: `${failed} webhooks to ${host} failed permanently within an hour: ${firstLine(reason)}`,
  action:
    "When the receiver works again: stint webhooks list ENDPOINT --state failed, then stint webhooks resend ENDPOINT DELIVERY.",
  forMs: 0
})

const ofBudget = ({ currency, id, limit, period, renewsAt, scope, spent }: BudgetState): Condition => ({
  fingerprint: `budget_reached/${scope}/${id}/${period}`,
  kind: "budget_reached",
  ...(scope === "endpoint" ? { endpoint: id } : {}),
  summary: `The ${period} budget of ${scope} ${id} is used up: ${
    spent.toFixed(2)
  } of ${limit} ${currency}. New jobs are refused until ${new Date(renewsAt).toISOString()}.`,
  action: `See what it was spent on: stint usage ${
    scope === "endpoint" ? id : "--by key"
  } --step day. Raise it in the price file (STINT_PRICES).`,
  forMs: 0
})

/** The conditions that hold, at most one for each fingerprint. */
export const conditionsOf = (observation: Observation, thresholds: Thresholds): ReadonlyArray<Condition> => [
  ...(observation.isDiskLow ? [diskLow] : []),
  ...observation.endpoints.flatMap((endpoint) => ofEndpoint(endpoint, observation.now, thresholds)),
  ...observation.hosts.filter(({ failed }) => failed >= RECEIVER_FAILURES).map(ofHost),
  ...observation.budgets.filter(({ limit, spent }) => spent >= limit).map(ofBudget)
]
