/**
 * For tests: pipeline runs over a node of a database.
 */
import { EndpointId, type JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { Scenario } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import { type JournalWrite, type NewEntry, RunStore } from "@stint/store/RunStore"
import { CHILD_RETENTION_MILLIS, childId } from "@stint/store/RunTransactions"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import * as PostgresJobStore from "../src/PostgresJobStore.ts"
import * as PostgresRunStore from "../src/PostgresRunStore.ts"

export const ENDPOINT = EndpointId.make("letters")
export const CHILDREN = EndpointId.make("stamps")
export const HASH = "a".repeat(64)
export const START = { definition: HASH, ttlMs: 1_000_000_000, undo: false }

/** A record that spawns a child. */
export const spawn = (path: string, endpoint = CHILDREN): NewEntry & { readonly id: JobId } => {
  const id = childId(uuidV7At(0))
  const child = Scenario.record({ id, endpoint, retentionMs: CHILD_RETENTION_MILLIS })
  return { kind: "spawn", path, child, until: null, id }
}

/** A node of a database, with the operations of workers. */
export const node = (address: string, options: Partial<PostgresDatabase.Options> = {}) =>
  Effect.map(
    Layer.build(
      Layer.merge(PostgresJobStore.layer, PostgresRunStore.layer).pipe(
        Layer.provide(PostgresDatabase.layer({ url: Redacted.make(address), ...options }))
      )
    ),
    (context) => {
      const [jobs, runs] = [Context.get(context, JobStore), Context.get(context, RunStore)]
      return {
        jobs,
        runs,
        claim: (endpoint: EndpointId, worker: string) =>
          Effect.map(jobs.claim(endpoint, 100, { _tag: "Claim", now: 0, worker }), ({ jobs }) => jobs),
        write: (run: JobId, write: Partial<JournalWrite>, worker = "ann") =>
          Effect.flatMap(
            runs.journal(ENDPOINT, worker, [{ run, attempt: 1, records: [], isHeld: false, ...write }], 0),
            ([result]) => result === undefined ? Effect.die(new Error("no result")) : Effect.succeed(result)
          ),
        finish: (child: JobId) =>
          jobs.apply(CHILDREN, child, {
            _tag: "Finish",
            endpoint: CHILDREN,
            worker: "bob",
            now: 0,
            output: toJsonText("stamped"),
            error: null
          })
      }
    }
  )
