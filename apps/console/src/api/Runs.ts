/**
 * The operations on pipeline runs. Reading needs `jobs:read`, events need `jobs:submit`, and retries need `jobs:manage`.
 */
import type { DefinitionList } from "@stint/contract/Definitions"
import type { JobLogLine, JobLogPage } from "@stint/contract/JobLogLine"
import type { PipelineGraph } from "@stint/contract/RunJournal"
import type { EventReceipt, RunStep, RunSteps, SendEvent } from "@stint/contract/RunSteps"
import { call, part, queryOf, read } from "./Api.ts"

/** The maximum number of steps in a page. */
const PAGE = 1_000

/** The maximum number of steps that are shown. The command line shows the steps of larger runs page by page. */
const MOST_STEPS = 5_000

/** The definitions of a pipeline, newest first. Empty for an endpoint that is not a pipeline. */
export const definitions = (endpoint: string, signal?: AbortSignal) =>
  read<DefinitionList>(`/v2/${part(endpoint)}/definitions`, signal)

/** The graph of a definition. */
export const definition = (endpoint: string, hash: string, signal?: AbortSignal) =>
  read<PipelineGraph>(`/v2/${part(endpoint)}/definitions/${part(hash)}`, signal)

/** A run with its first steps, up to {@link MOST_STEPS}. `next`: there are more. */
export const runSteps = async (endpoint: string, id: string, signal?: AbortSignal): Promise<RunSteps> => {
  const steps: Array<RunStep> = []
  for (let after = 0;;) {
    const page = await read<RunSteps>(`/v2/${part(endpoint)}/steps/${part(id)}${queryOf({ after, limit: PAGE })}`, signal)
    steps.push(...page.steps)
    if (page.next === undefined || steps.length >= MOST_STEPS) return { ...page, steps }
    after = page.next
  }
}

/** The maximum number of lines in a page of a log, and the maximum that is shown of a step. */
const LOG_PAGE = 1_000
const MOST_LINES = 5_000

/** The newest log lines of a job, up to {@link MOST_LINES}; with `step`, those of a step or node of a run. */
export const stepLog = async (
  endpoint: string,
  job: string,
  step: string | undefined,
  signal?: AbortSignal
): Promise<ReadonlyArray<JobLogLine>> => {
  const lines: Array<JobLogLine> = []
  for (let after = 0;;) {
    const query = queryOf({ after, limit: LOG_PAGE, ...(step === undefined ? {} : { step }) })
    const page = await read<JobLogPage>(`/v2/${part(endpoint)}/logs/${part(job)}${query}`, signal)
    lines.push(...page.lines)
    if (!page.more) return lines.slice(-MOST_LINES)
    after = page.cursor
  }
}

/** Sends an event to the run that has waited for it the longest. */
export const sendEvent = async (endpoint: string, event: SendEvent): Promise<EventReceipt> => {
  const receipt: EventReceipt = JSON.parse(await call("POST", `/v2/${part(endpoint)}/events`, { json: event }))
  return receipt
}

/** Runs a node and all nodes after it again. */
export const retryFrom = (endpoint: string, id: string, node: string) =>
  call("POST", `/v2/${part(endpoint)}/retry/${part(id)}${queryOf({ from: node })}`)
