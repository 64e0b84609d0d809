/**
 * Links from jobs to their traces in a trace viewer.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { StoreError } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"

/** The trace of a job, and its address in the viewer. */
export interface TraceLink {
  readonly id: string
  readonly url: string
}

/** Finds the trace of a job; undefined if it is not recorded. Default: no job has a link. */
export const TraceLinks = Context.Reference<
  (job: { readonly endpoint: EndpointId; readonly id: JobId }) => Effect.Effect<TraceLink | undefined, StoreError>
>("@stint/server/TraceLinks", { defaultValue: () => () => Effect.succeed(undefined) })
