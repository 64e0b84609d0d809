/**
 * The columns of jobs and their decoders.
 *
 * Each row is decoded with a schema, so that a damaged or edited file cannot bring invalid data into the state machine.
 */
import { JsonText } from "@stint/contract/Json"
import {
  JobConcurrency,
  JobHead,
  JobInput,
  JobOutcome,
  type JobReport,
  JobSummary,
  JobWebhook,
  RetryRule
} from "@stint/store/JobRecord"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as SchemaJITCompiler from "effect/schema/SchemaJITCompiler"
import * as SchemaGetter from "effect/SchemaGetter"

/** A job and its row number, the key of its other rows. */
export interface Row {
  readonly seq: number
  readonly head: JobHead
}

/** The columns of a head, in the order in which {@link toRow} reads them. The aliases are for the other decoders. */
export const HEAD = `jobs.seq, id, endpoint, status, low_priority AS lowPriority, created_at AS createdAt, queued_at AS queuedAt,
  expires_at AS expiresAt, execution_timeout_ms AS executionTimeoutMs, lease_ms AS leaseMs, max_attempts AS maxAttempts,
  retention_ms AS retentionMs, attempt, retries, worker, started_at AS startedAt, lease_expires_at AS leaseExpiresAt,
  finished_at AS finishedAt, isolated, chunks, drained, priority, not_before AS notBefore, ttl_ms AS ttlMs, retry, webhook, tags,
  batch AS batchId, owner, release,
  CASE WHEN concurrency_key IS NULL THEN NULL ELSE json_object('key', concurrency_key, 'limit', concurrency_limit, 'held',
    json(CASE WHEN turn IS NULL THEN 'true' ELSE 'false' END)) END AS concurrency`

/** Null for a job without an outcome. */
export const OUTCOME = `progress, output, error, last_error AS lastError`

const undecodable = (job: string, cause: unknown) =>
  new Error(`a row of ${job} is invalid: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })

/** Decodes rows. Errors contain the job's id but none of its data. */
const decoder = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) => {
  const decode = Schema.decodeUnknownSync(schema)
  return (row: unknown): S["Type"] => {
    try {
      return decode(row)
    } catch (cause) {
      const job = Predicate.hasProperty(row, "id") ? `job ${String(row.id)}` : "a job"
      throw undecodable(job, cause)
    }
  }
}

const NO_TAGS: ReadonlyArray<string> = []

/** Columns that SQLite stores as a different type: booleans as numbers, objects as JSON text, and an empty list of tags as null. */
const columns = {
  lowPriority: Schema.BooleanFromBit,
  isolated: Schema.BooleanFromBit,
  retry: Schema.NullOr(Schema.fromJsonString(RetryRule)),
  webhook: Schema.NullOr(Schema.fromJsonString(JobWebhook)),
  concurrency: Schema.NullOr(Schema.fromJsonString(JobConcurrency)),
  tags: Schema.NullOr(Schema.fromJsonString(JobHead.fields.tags)).pipe(
    Schema.decodeTo(JobHead.fields.tags, {
      decode: SchemaGetter.transform((tags) => tags ?? NO_TAGS),
      encode: SchemaGetter.transform((tags) => tags)
    })
  )
}

const decodeSummary = decoder(Schema.Struct({ ...JobSummary.fields, ...columns, seq: Schema.Int }))
/** The input of a job and its `OUTCOME`. */
export const decodePayload = decoder(Schema.Struct({ ...JobInput.fields, ...JobOutcome.fields }))
/** The trace context and the errors of a job. */
export const decodeTrace = decoder(Schema.Struct({
  traceparent: JobInput.fields.traceparent,
  tracestate: JobInput.fields.tracestate,
  error: JobOutcome.fields.error,
  lastError: JobOutcome.fields.lastError
}))
/** One chunk. */
export const decodeChunk = decoder(Schema.Struct({ body: JsonText }))
/** The only column, `time`: a time or a count. Null for no rows. */
export const decodeTime = decoder(Schema.Struct({ time: Schema.NullOr(Schema.Int) }))
/** The position of a job in a list. */
export const decodeCursor = decoder(Schema.Struct({ createdAt: Schema.Int, id: Schema.String }))
/** The position of a job in the list of a tag, and its row number. */
export const decodeTagged = decoder(Schema.Struct({ createdAt: Schema.Int, id: Schema.String, seq: Schema.Int }))
/** A worker that runs jobs. */
export const decodeBusyWorker = decoder(
  Schema.Struct({ worker: Schema.String, jobs: Schema.Int, isolated: Schema.BooleanFromBit })
)
/** A row number. */
export const decodeSeq = Schema.decodeUnknownSync(Schema.Int)
/** The fingerprint of a request with an idempotency key. */
export const decodeFingerprint = Schema.decodeUnknownSync(Schema.String)

SchemaJITCompiler.enable(JobHead.ast)
SchemaJITCompiler.enable(JobOutcome.ast)
const decodeHead = Schema.decodeUnknownSync(JobHead)

/** The values of a row, in the order of `HEAD` and of the columns after it. */
export const valuesOf = (row: unknown): ReadonlyArray<unknown> => Array.isArray(row) ? row : []

const fromBit = (value: unknown): unknown => value === 1 ? true : value === 0 ? false : value

const fromJson = (value: unknown): unknown => typeof value === "string" ? JSON.parse(value) : value

/**
 * Decodes the head of a job from an array in the order of `HEAD`. The claim decodes one for each job.
 *
 * SQLite's objects with named columns have no fixed shape, nor do the objects that an interpreted schema builds. Reading and copying them
 * takes V8 many times longer: 6.2 instead of 2.5 µs for reading, decoding and claiming a job. A process that may not compile code interprets
 * the schema (docs/decisions/0028-compiled-schemas.md).
 */
export const toRow = (row: unknown): Row => {
  const [
    seq,
    id,
    endpoint,
    status,
    lowPriority,
    createdAt,
    queuedAt,
    expiresAt,
    executionTimeoutMs,
    leaseMs,
    maxAttempts,
    retentionMs,
    attempt,
    retries,
    worker,
    startedAt,
    leaseExpiresAt,
    finishedAt,
    isolated,
    chunks,
    drained,
    priority,
    notBefore,
    ttlMs,
    retry,
    webhook,
    tags,
    batchId,
    owner,
    release,
    concurrency
  ] = valuesOf(row)
  try {
    const head = decodeHead({
      id,
      endpoint,
      status,
      lowPriority: fromBit(lowPriority),
      createdAt,
      queuedAt,
      expiresAt,
      executionTimeoutMs,
      leaseMs,
      maxAttempts,
      retentionMs,
      attempt,
      retries,
      worker,
      startedAt,
      leaseExpiresAt,
      finishedAt,
      isolated: fromBit(isolated),
      concurrency: fromJson(concurrency),
      chunks,
      drained,
      priority,
      notBefore,
      ttlMs,
      retry: fromJson(retry),
      webhook: fromJson(webhook),
      tags: fromJson(tags) ?? NO_TAGS,
      batchId,
      owner,
      release
    })
    return { seq: decodeSeq(seq), head }
  } catch (cause) {
    throw undecodable(`job ${String(id)}`, cause)
  }
}

const decodeOutcome = Schema.decodeUnknownSync(JobOutcome)

/** Decodes a job from an array in the order of `HEAD` and `OUTCOME`. A caller that waits for a job reads one. */
export const toReport = (row: unknown): JobReport => {
  const { head } = toRow(row)
  const [progress, output, error, lastError] = valuesOf(row).slice(-4)
  try {
    return { ...head, ...decodeOutcome({ progress, output, error, lastError }) }
  } catch (cause) {
    throw undecodable(`job ${head.id}`, cause)
  }
}

/** Decodes the row of a listed job. */
export const toSummary = (row: unknown): JobSummary => {
  const { seq: _, ...summary } = decodeSummary(row)
  return summary
}
