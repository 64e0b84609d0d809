import { describe, vi } from "@effect/vitest"
import {
  buildStoreSuite,
  bulkStoreSuite,
  errorGroupSuite,
  jobStoreSuite,
  runStoreSuite,
  scheduleStoreSuite
} from "@stint/store-testing"
import { BuildStore } from "@stint/store/BuildStore"
import { BulkStore } from "@stint/store/BulkStore"
import { ErrorGroupStore } from "@stint/store/ErrorGroupStore"
import { JobStore } from "@stint/store/JobStore"
import { RunStore } from "@stint/store/RunStore"
import { ScheduleStore } from "@stint/store/ScheduleStore"
import { missing, testCluster } from "./TestCluster.ts"
import { twoNodes } from "./TwoNodes.ts"

// A database on a busy machine takes longer than a store in this process.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

describe.skipIf(missing !== undefined)(missing ?? "two nodes", () => {
  const name = "postgres, each call at a random one of two nodes"
  const { calledAtBoth, stores } = twoNodes(testCluster())
  jobStoreSuite(name, stores, { sequences: 40, storms: 1, isOneNode: false })
  runStoreSuite(name, stores, { sequences: 10 })
  bulkStoreSuite(name, stores, { sequences: 5 })
  errorGroupSuite(name, stores)
  scheduleStoreSuite(name, stores, { sequences: 5 })
  buildStoreSuite(name, stores)
  calledAtBoth([JobStore, RunStore, BulkStore, ErrorGroupStore, ScheduleStore, BuildStore])
})
