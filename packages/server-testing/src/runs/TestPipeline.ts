/**
 * A pipeline of a server under test, whose worker writes to the journal of one run.
 */
import { expect } from "@effect/vitest"
import { RunJournalResponse } from "@stint/contract/RunJournal"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { ServerTest } from "../ServerTest.ts"
import { expectJson } from "../WireClient.ts"

/** The hash of {@link graph}. */
export const HASH = "a".repeat(64)

type Members = Readonly<Record<string, Schema.Json>>
/** The graph of the pipeline under test. */
export const graph = { name: "letters", nodes: [{ address: "write", kind: "step" }, { address: "stamp", kind: "run" }] }

/** A pipeline with a worker that has taken a run, and an endpoint for its children. */
export const make = Effect.gen(function*() {
  const server = yield* ServerTest
  const pipeline = yield* server.endpoint()
  const children = yield* server.endpoint()
  const worker = yield* pipeline.worker()
  const { id } = yield* pipeline.run({})
  yield* worker.next

  const post = (body: Schema.Json, name = worker.id) =>
    worker.call(new URL(pipeline.path(`run-journal/${name}`), worker.addresses.stop).href, { json: body })
  const journal = (run: Members, rest: Members = {}, name = worker.id) =>
    Effect.flatMap(post({ ...rest, runs: [{ run: id, attempt: 1, ...run }] }, name), expectJson(200, RunJournalResponse)).pipe(
      Effect.map(({ runs: [answer] }) => answer ?? expect.fail("no answer"))
    )
  /** Sends the members of the run as JSON text, and returns the text of the response. */
  const journalText = (members: string) =>
    Effect.map(
      worker.call(new URL(pipeline.path(`run-journal/${worker.id}`), worker.addresses.stop).href, {
        method: "POST",
        body: `{"runs": [{"run": "${id}", "attempt": 1, ${members}}]}`
      }),
      ({ text }) => text
    )
  const start = () => journal({ start: { definition: HASH } }, { definitions: [{ hash: HASH, graph }] })
  return { children, id, journal, journalText, pipeline, post, start, worker }
})
