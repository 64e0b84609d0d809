/**
 * Whether workers hold jobs. Most workers that take jobs hold none, and the takes of an idle platform come at the same times (`AlignedSleep`), so reads of
 * one turn share a statement, which waits for no transaction.
 */
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Request from "effect/Request"
import * as RequestResolver from "effect/RequestResolver"
import * as Schema from "effect/Schema"
import { endOfTurn } from "./EndOfTurn.ts"
import type { PostgresDatabase } from "./PostgresDatabase.ts"
import type { WorkerOf } from "./Transaction.ts"

/** The maximum number of workers in one statement. */
const MAX_WORKERS = 500

/** The positions, from 1, of the workers that have a running job. */
const HOLDERS = `SELECT u.n::int FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (endpoint, worker, n)
  CROSS JOIN LATERAL (SELECT 1 FROM stint.running r WHERE r.endpoint = u.endpoint AND r.worker = u.worker LIMIT 1) held`

const decodePosition = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int]))

class Holds extends Request.Class<WorkerOf, boolean, StoreError> {}

/** Reads whether a worker holds a job, as of the last commits. */
export const make = (db: PostgresDatabase["Service"]): (worker: WorkerOf) => Effect.Effect<boolean, StoreError> => {
  const resolver = RequestResolver.makeWith<Holds>({
    batchKey: () => "holds",
    delay: endOfTurn,
    collectWhile: ({ size }) => size < MAX_WORKERS,
    runAll: (entries) =>
      Effect.map(
        db.read("applyRunning", (query) =>
          query(HOLDERS, [entries.map(({ request }) => request.endpoint), entries.map(({ request }) => request.worker)])),
        (rows) => {
          const holders = new Set(rows.map((row) =>
            decodePosition(row)[0]
          ))
          entries.forEach((entry, index) => entry.completeUnsafe(Exit.succeed(holders.has(index + 1))))
        }
      )
  })
  return ({ endpoint, worker }) => Effect.request(new Holds({ endpoint, worker }), resolver)
}
