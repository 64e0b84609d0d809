/**
 * Sends the results of local jobs to their `webhook`, as a deployed endpoint does: the job object with its `input` and `webhook`, once
 * it has ended, three tries at 0, 5 and 20 s (docs/spec/local-test-mode.md#webhooks).
 *
 * Best effort: a webhook that fails is a WARN and changes nothing of the job. Any http or https address will do, this machine's own
 * included, because on a developer's machine that is where the receiver is.
 */
import { REQUEST_ID } from "@stint/worker/Logger"
import * as NodeHttpClient from "@stint/worker/NodeHttpClient"
import { VERSION } from "@stint/worker/Version"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { jobJsonMembers } from "./LocalJobQueue.ts"
import type { LocalJob } from "./LocalJobQueue.ts"

/** How long a receiver may be silent. Milliseconds. */
const RESPONSE_TIMEOUT = 10_000

/** The waits between the tries. Milliseconds. */
const RETRY_DELAYS = [5_000, 15_000]

/** Whether it is an address that a webhook can have. */
export const isAddress = (text: string): boolean => {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url?.protocol === "http:" || url?.protocol === "https:"
}

/** Sends the result of a job that has ended and named a webhook; nothing otherwise. */
export const make = (workerId: string): Effect.Effect<(job: LocalJob) => Effect.Effect<void>, never, Scope.Scope> =>
  Effect.gen(function*() {
    const call = yield* NodeHttpClient.make({ accept: "*/*", "user-agent": `stint-local/${VERSION}` })

    const attempt = (url: string, body: string) =>
      Effect.match(call({ method: "POST", url, body, contentType: "application/json", idleTimeout: RESPONSE_TIMEOUT }), {
        onFailure: (error) => error.message,
        onSuccess: ({ status }) => status >= 200 && status < 300 ? undefined : `it answered ${status}`
      })

    const deliver = Effect.fnUntraced(function*(url: string, body: string) {
      let problem = yield* attempt(url, body)
      for (const wait of RETRY_DELAYS) {
        if (problem === undefined) return
        yield* Effect.logWarning(`The webhook did not take the result: ${problem}. Trying again in ${wait / 1000} s.`)
        yield* Effect.sleep(wait)
        problem = yield* attempt(url, body)
      }
      if (problem === undefined) return
      yield* Effect.logWarning(`The webhook did not take the result: ${problem}. Given up; /status/{id} still has it.`)
    })

    return (job) => {
      const { input, webhook } = job.request
      if (webhook === undefined) return Effect.void
      return Effect.suspend(() =>
        deliver(
          webhook,
          `{${jobJsonMembers(job, workerId)},"input":${JSON.stringify(input)},"webhook":${JSON.stringify(webhook)}}`
        )
      ).pipe(Effect.annotateLogs(REQUEST_ID, job.id))
    }
  })
