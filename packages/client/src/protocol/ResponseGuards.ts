/**
 * The decoders of the promise client: type guards instead of Schemas, because Schemas would make up four fifths of a browser bundle.
 *
 * The guards accept exactly what the contract's Schemas accept; a property test compares them.
 */
import type {
  Health,
  Job,
  JobChunkEvent,
  JobLogLine,
  JobProgressEvent,
  JobReceipt,
  JobStatus,
  JobStatusEvent,
  Purged,
  RunEventReceipt,
  StreamPage
} from "../ApiTypes.ts"
import { isRecord } from "../CallError.ts"
import type { Decoders } from "./DriverProtocol.ts"

const STATUSES: Readonly<Record<JobStatus, true>> = {
  IN_QUEUE: true,
  IN_PROGRESS: true,
  COMPLETED: true,
  FAILED: true,
  CANCELLED: true,
  TIMED_OUT: true
}

type Guard = (value: unknown) => boolean

const isString: Guard = (value) => typeof value === "string"
const isInt: Guard = Number.isSafeInteger
const isCount: Guard = (value) => typeof value === "number" && Number.isSafeInteger(value) && value >= 0
const isStatus: Guard = (value) => typeof value === "string" && Object.hasOwn(STATUSES, value)
/** The values come from `JSON.parse`, so every value is JSON. */
const isJson: Guard = () => true

const has = (
  value: unknown,
  required: Readonly<Record<string, Guard>>,
  optional: Readonly<Record<string, Guard>> = {}
): boolean =>
  isRecord(value) &&
  Object.entries(required).every(([key, guard]) => Object.hasOwn(value, key) && guard(value[key])) &&
  Object.entries(optional).every(([key, guard]) => !Object.hasOwn(value, key) || guard(value[key]))

const optionalJobKeys = {
  delayTime: isInt,
  executionTime: isInt,
  output: isJson,
  error: isString,
  retries: isInt,
  workerId: isString
}

const isReceipt = (value: unknown): value is JobReceipt => has(value, { id: isString, status: isStatus })

const isJob = (value: unknown): value is Job => has(value, { id: isString, status: isStatus }, optionalJobKeys)

const isChunks: Guard = (value) => Array.isArray(value) && value.every((chunk) => has(chunk, { output: isJson }))

const isPage = (value: unknown): value is StreamPage =>
  has(value, { id: isString, status: isStatus, stream: isChunks }, optionalJobKeys)

const isStatusEvent = (value: unknown): value is JobStatusEvent =>
  has(
    value,
    { id: isString, status: (status) => status === "IN_QUEUE" || status === "IN_PROGRESS", attempt: isInt },
    { workerId: isString }
  )

const isProgressEvent = (value: unknown): value is JobProgressEvent => has(value, { attempt: isInt, output: isJson })

const isChunkEvent = (value: unknown): value is JobChunkEvent => has(value, { attempt: isInt, number: isInt, output: isJson })

const oneOf = (...words: ReadonlyArray<string>): Guard => (value) => typeof value === "string" && words.includes(value)

const isLogLine = (value: unknown): value is JobLogLine =>
  has(
    value,
    {
      number: isInt,
      time: isInt,
      level: oneOf("TRACE", "DEBUG", "INFO", "WARN", "ERROR"),
      message: isString,
      attempt: isInt,
      source: oneOf("log", "stdout", "stderr", "platform")
    },
    {
      workerId: isString,
      step: isString,
      ended: (end) =>
        has(end, { outcome: oneOf("failed", "timed_out", "lost", "returned"), startedAt: isInt }, { error: isString })
    }
  )

const isPurged = (value: unknown): value is Purged => has(value, { removed: isInt, status: (status) => status === "completed" })

const isEventReceipt = (value: unknown): value is RunEventReceipt =>
  has(value, { delivered: (run) => run === null || isString(run) }, { duplicate: (value) => value === true })

const counts = (...names: ReadonlyArray<string>): Guard => (value) =>
  has(value, Object.fromEntries(names.map((name) => [name, isCount])))

const isHealth = (value: unknown): value is Health =>
  has(value, {
    jobs: counts("completed", "failed", "inProgress", "inQueue", "retried"),
    workers: counts("idle", "initializing", "ready", "running", "throttled", "unhealthy")
  }, { limits: counts("waitingJobs") })

const decoder = <A>(guard: (value: unknown) => value is A) => (json: unknown): A | undefined => guard(json) ? json : undefined

/** The decoders of the promise client. */
export const decoders: Decoders = {
  job: decoder(isJob),
  receipt: decoder(isReceipt),
  page: decoder(isPage),
  events: {
    status: decoder(isStatusEvent),
    progress: decoder(isProgressEvent),
    chunk: decoder(isChunkEvent),
    log: decoder(isLogLine),
    end: decoder(isJob)
  },
  purged: decoder(isPurged),
  eventReceipt: decoder(isEventReceipt),
  health: decoder(isHealth)
}
