/**
 * Sends results that are ready at the same time in one request (docs/spec/worker-protocol.md#delivering-several-results).
 *
 * ```
 *   deliver --> pending --no other job, a take, or the end of this turn of the event loop--> one:     job-done
 *                                                                                             several: job-done-batch
 *                                                                                                        |  a status for each
 *                                                                                                        |  refused: job-done for each
 * ```
 *
 * A request costs the platform and the worker several times as much as the result in it. Nothing waits for other results: the handlers of jobs that
 * arrived together often end in one turn of the event loop. The fiber of the first result sends the request for all of them.
 */
import { DeliveryStatus, MAX_DELIVERED_RESULTS } from "@stint/contract/WorkerProtocol"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { ReceivedJob } from "../handlers/CurrentJob.ts"
import { JobSourceError, Refused } from "./JobSource.ts"
import type { HttpResponse } from "./NodeHttpClient.ts"

/** The maximum length of a result that is sent together with others, in characters. A longer one costs more than its request. */
const MAX_RESULT_LENGTH = 64 * 1024

/** The maximum length of the results in one request, in characters. */
const MAX_BODY_LENGTH = 1024 * 1024

/** Sends one result, or one request with several. */
type Delivery = Effect.Effect<void, JobSourceError>

interface Pending {
  /** The result in the body of job-done-batch. */
  readonly element: string
  /** Delivers it with job-done. */
  readonly alone: Delivery
  readonly resume: (delivery: Delivery) => void
}

/** The results of a worker that are not yet sent. */
export interface ResultBatch {
  /** Delivers the result of a job, together with others or as `alone` does. `body`: the JSON text of an object. */
  readonly deliver: (job: ReceivedJob, body: string, alone: Delivery) => Delivery
  /** A take begins: sends what is pending first, so that the platform usually knows that these jobs have ended. `hasJobs`: see `JobSource`. */
  readonly taking: (hasJobs: boolean) => void
  /** The take returned this number of jobs. */
  readonly taken: (jobs: number) => void
}

const decodeStatuses = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Array(DeliveryStatus)))

/** Of two members with the same name, the last one is valid. */
const elementOf = ({ attempt, id, leaseToken }: ReceivedJob, body: string): string =>
  `${body.slice(0, -1)}${body === "{}" ? "" : ","}${JSON.stringify({ id, attempt, leaseToken }).slice(1)}`

/** Whether a refusal concerns the whole request for now, and not its form: job-done would receive the same. */
const isOutage = (status: number): boolean => status >= 500 || [401, 403, 408, 425, 429].includes(status)

/** Collects results. `send` posts a body to job-done-batch; `refusal` makes an error of a response. */
export const make = (
  send: (body: string) => Effect.Effect<HttpResponse, JobSourceError>,
  refusal: (answer: HttpResponse) => JobSourceError
): ResultBatch => {
  let pending: Array<Pending> = []
  let length = 0
  /** The number of taken jobs without a result. Too high if jobs were stopped since the worker last had none: their results never come. */
  let unfinished = 0
  // A 404 means that the platform has no such route; from then on, the worker sends each result alone.
  let isSupported = true

  /** How each delivery continues after the response. */
  const outcomesOf = (entries: ReadonlyArray<Pending>, answer: HttpResponse): ReadonlyArray<Delivery> => {
    if (answer.status === 404) isSupported = false
    if (isOutage(answer.status)) return entries.map(() => Effect.fail(refusal(answer)))
    const statuses = answer.status === 200 ? Option.getOrElse(decodeStatuses(answer.text), () => []) : []
    if (statuses.length !== entries.length) return entries.map(({ alone }) => alone)
    return statuses.map(({ error = "", status }) =>
      status === 200 ? Effect.void : Effect.fail(new JobSourceError({ reason: new Refused({ status, text: error }) }))
    )
  }

  const sendAll = (entries: ReadonlyArray<Pending>): Delivery => {
    const resumeOthers = (outcome: (at: number) => Delivery) =>
      entries.forEach((entry, at) => {
        if (at > 0) entry.resume(outcome(at))
      })
    return Effect.matchEffect(send(`[${entries.map(({ element }) => element).join(",")}]`), {
      onFailure: (error) => {
        resumeOthers(() => Effect.fail(error))
        return Effect.fail(error)
      },
      onSuccess: (answer) => {
        const outcomes = outcomesOf(entries, answer)
        resumeOthers((at) => outcomes[at] ?? Effect.void)
        return outcomes[0] ?? Effect.void
      }
      // The request ends with the first job. Results are fenced, so the others may be sent again.
    }).pipe(Effect.onInterrupt(() => Effect.sync(() => resumeOthers((at) => entries[at]?.alone ?? Effect.void))))
  }

  const flush = () => {
    const entries = pending
    pending = []
    length = 0
    const [first] = entries
    first?.resume(entries.length === 1 ? first.alone : sendAll(entries))
  }

  const together = (element: string, alone: Delivery): Delivery =>
    Effect.callback((resume) => {
      const entry: Pending = { element, alone, resume }
      if (length + element.length > MAX_BODY_LENGTH || pending.length === MAX_DELIVERED_RESULTS) flush()
      pending.push(entry)
      length += element.length
      // Runs when the handlers that can continue now have done so, and before the event loop waits for the network.
      if (pending.length === 1) process.nextTick(flush)
      return Effect.sync(() => {
        if (!pending.includes(entry)) return
        pending = pending.filter((one) => one !== entry)
        length -= element.length
      })
    })

  return {
    taking: (hasJobs) => {
      if (!hasJobs) unfinished = 0
      flush()
    },
    taken: (jobs) => {
      unfinished += jobs
    },
    deliver: (job, body, alone) =>
      Effect.suspend(() => {
        unfinished = Math.max(0, unfinished - 1)
        const hasCompany = unfinished > 0 || pending.length > 0
        return isSupported && hasCompany && body.length <= MAX_RESULT_LENGTH ? together(elementOf(job, body), alone) : alone
      })
  }
}
