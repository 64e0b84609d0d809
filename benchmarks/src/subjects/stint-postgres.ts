/** Stint's queue over PostgreSQL, one node. The argument is the address of an empty database. */
import * as JobQueue from "@stint/queue/JobQueue"
import * as UsageMeter from "@stint/queue/UsageMeter"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Postgres from "@stint/store-postgres"
import { execute } from "@stint/store-postgres/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Redacted from "effect/Redacted"
import process from "node:process"
import { serveSubject } from "../SubjectProcess.ts"
import { runLoad } from "./QueueLoad.ts"

const url = process.argv[2] ?? ""

const runtime = ManagedRuntime.make(
  JobQueue.layer.pipe(
    // As in the platform, each attempt is counted for billing.
    Layer.provide(UsageMeter.layer()),
    Layer.provide(WorkerRegistry.layer),
    Layer.provide([Postgres.PostgresJobStore.layer, Postgres.PostgresUsageStore.layer]),
    Layer.provide(Postgres.PostgresDatabase.layer({ url: Redacted.make(url) }))
  )
)

const completed = Effect.promise(async () =>
  Number((await execute(url, "SELECT count(*) FROM stint.ended WHERE status = 'COMPLETED'"))[0]?.[0])
)

serveSubject((load) => runtime.runPromise(runLoad(load, completed)), () => runtime.dispose())
