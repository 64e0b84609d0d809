import { describe, vi } from "@effect/vitest"
import {
  buildStoreSuite,
  bulkStoreSuite,
  errorGroupSuite,
  jobStoreSuite,
  runStoreSuite,
  scheduleStoreSuite,
  SeededRandom
} from "@stint/store-testing"
import { BuildStore } from "@stint/store/BuildStore"
import { BulkStore } from "@stint/store/BulkStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import { ErrorGroupStore } from "@stint/store/ErrorGroupStore"
import { JobStore } from "@stint/store/JobStore"
import { RunStore } from "@stint/store/RunStore"
import { ScheduleStore } from "@stint/store/ScheduleStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as PostgresBuildStore from "../src/PostgresBuildStore.ts"
import * as PostgresBulkStore from "../src/PostgresBulkStore.ts"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import * as PostgresEndpointStore from "../src/PostgresEndpointStore.ts"
import * as PostgresJobStore from "../src/PostgresJobStore.ts"
import * as PostgresRunStore from "../src/PostgresRunStore.ts"
import * as PostgresScheduleStore from "../src/PostgresScheduleStore.ts"
import { makeDatabases, missing, testCluster } from "./TestCluster.ts"

// A database on a busy machine takes longer than a store in this process.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

const STORES = Layer.mergeAll(
  PostgresBuildStore.layer,
  PostgresBulkStore.layer,
  PostgresEndpointStore.layer,
  PostgresJobStore.layer,
  PostgresRunStore.layer,
  PostgresScheduleStore.layer
)

/** Stores on which each operation goes to a random one of two nodes with the same database. */
const twoNodes = (address: string) =>
  Layer.effectContext(
    Effect.gen(function*() {
      const url = Redacted.make(address)
      const node = Layer.build(STORES.pipe(Layer.provide(PostgresDatabase.layer({ url }))))
      const nodes = [yield* node, yield* node] as const
      const random = SeededRandom.seededRandom(1)
      const anyNode = () => random() < 0.5 ? nodes[0] : nodes[1]
      const any = () => Context.get(anyNode(), JobStore)
      const anyRuns = () => Context.get(anyNode(), RunStore)
      const anyBulk = () => Context.get(anyNode(), BulkStore)
      const anyBuilds = () => Context.get(anyNode(), BuildStore)
      const anyErrors = () => Context.get(anyNode(), ErrorGroupStore)
      const anySchedules = () => Context.get(anyNode(), ScheduleStore)
      const jobs = JobStore.of({
        durability: any().durability,
        insert: (...args) => any().insert(...args),
        apply: (...args) => any().apply(...args),
        append: (...args) => any().append(...args),
        claim: (...args) => any().claim(...args),
        tick: (...args) => any().tick(...args),
        applyRunning: (...args) => any().applyRunning(...args),
        applyWaiting: (...args) => any().applyWaiting(...args),
        get: (...args) => any().get(...args),
        traceOf: (...args) => any().traceOf(...args),
        input: (...args) => any().input(...args),
        drain: (...args) => any().drain(...args),
        peek: (...args) => any().peek(...args),
        list: (...args) => any().list(...args),
        texts: (...args) => any().texts(...args),
        ahead: (...args) => any().ahead(...args),
        depth: (...args) => any().depth(...args),
        keyUsage: (...args) => any().keyUsage(...args)
      })
      const runs = RunStore.of({
        journal: (...args) => anyRuns().journal(...args),
        define: (...args) => anyRuns().define(...args),
        definition: (...args) => anyRuns().definition(...args),
        definitions: (...args) => anyRuns().definitions(...args),
        openRuns: (...args) => anyRuns().openRuns(...args),
        get: (...args) => anyRuns().get(...args),
        entries: (...args) => anyRuns().entries(...args),
        open: (...args) => anyRuns().open(...args),
        send: (...args) => anyRuns().send(...args),
        retry: (...args) => anyRuns().retry(...args)
      })
      const schedules = ScheduleStore.of({
        get: (...args) => anySchedules().get(...args),
        list: (...args) => anySchedules().list(...args),
        put: (...args) => anySchedules().put(...args),
        remove: (...args) => anySchedules().remove(...args),
        due: (...args) => anySchedules().due(...args)
      })
      const bulk = BulkStore.of({
        get: (id) => anyBulk().get(id),
        list: Effect.suspend(() => anyBulk().list),
        unended: Effect.suspend(() => anyBulk().unended),
        put: (after) => anyBulk().put(after)
      })
      const builds = BuildStore.of({
        settings: (...args) => anyBuilds().settings(...args),
        saveSettings: (...args) => anyBuilds().saveSettings(...args),
        create: (...args) => anyBuilds().create(...args),
        update: (...args) => anyBuilds().update(...args),
        get: (...args) => anyBuilds().get(...args),
        list: (...args) => anyBuilds().list(...args),
        hasSucceeded: (...args) => anyBuilds().hasSucceeded(...args),
        unended: Effect.suspend(() => anyBuilds().unended),
        appendLog: (...args) => anyBuilds().appendLog(...args),
        readLog: (...args) => anyBuilds().readLog(...args),
        removeAll: (...args) => anyBuilds().removeAll(...args)
      })
      const errors = ErrorGroupStore.of({
        list: (...args) => anyErrors().list(...args),
        get: (...args) => anyErrors().get(...args),
        resolve: (...args) => anyErrors().resolve(...args)
      })
      return Context.make(JobStore, jobs).pipe(
        Context.add(BulkStore, bulk),
        Context.add(EndpointStore, Context.get(nodes[0], EndpointStore)),
        Context.add(ErrorGroupStore, errors),
        Context.add(RunStore, runs),
        Context.add(ScheduleStore, schedules),
        Context.add(BuildStore, builds)
      )
    })
  )

describe.skipIf(missing !== undefined)(missing ?? "two nodes", () => {
  const cluster = testCluster()
  const { url } = makeDatabases(cluster)
  const name = "postgres, each call at a random one of two nodes"
  const stores = Layer.unwrap(Effect.map(url, twoNodes))
  jobStoreSuite(name, stores, { sequences: 40, storms: 1, isOneNode: false })
  runStoreSuite(name, stores, { sequences: 10 })
  bulkStoreSuite(name, stores, { sequences: 5 })
  errorGroupSuite(name, stores)
  scheduleStoreSuite(name, stores, { sequences: 5 })
  buildStoreSuite(name, stores)
})
