/**
 * The ids of endpoints, jobs and workers.
 */
import * as Schema from "effect/Schema"
import { PrintableText } from "./PrintableText.ts"

/**
 * An endpoint's id, as in `/v2/{endpoint}/...`.
 *
 * 1 to 63 letters, digits, `-` or `_`, starting with a letter or a digit: safe in URLs, file names, container names and environment
 * variables.
 */
export const EndpointId = Schema.String.check(
  Schema.isPattern(/^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$/, {
    message: "an endpoint id is 1 to 63 letters, digits, - or _, and starts with a letter or a digit"
  })
).pipe(Schema.brand("EndpointId"))
export type EndpointId = typeof EndpointId.Type

/**
 * A job's id: a UUID for `/run`, or `sync-` followed by a UUID for `/runsync` (docs/spec/jobs-api.md#job-ids).
 */
export const JobId = PrintableText.check(Schema.isBetweenLength(1, 128)).pipe(Schema.brand("JobId"))
export type JobId = typeof JobId.Type

/** The maximum length of a worker's id, in characters. */
export const MAX_WORKER_ID = 256

/**
 * A worker's id. The pool chooses the id, or the worker itself does if the platform did not start it
 * (docs/spec/environment.md#set-by-the-platform). Any printable text of 1 to 256 characters, because other SDKs use ids of any form.
 */
export const WorkerId = PrintableText.check(Schema.isBetweenLength(1, MAX_WORKER_ID)).pipe(Schema.brand("WorkerId"))
export type WorkerId = typeof WorkerId.Type
