import { describe, vi } from "@effect/vitest"
import {
  auditStoreSuite,
  batchStoreSuite,
  buildStoreSuite,
  bulkStoreSuite,
  endpointRemovalSuite,
  endpointStoreSuite,
  errorGroupSuite,
  jobLogStoreSuite,
  jobStoreSuite,
  keyStoreSuite,
  outboxSuite,
  releaseStoreSuite,
  runStoreSuite,
  runWebhookSuite,
  scheduleStoreSuite,
  secretStoreSuite,
  textSearchSuite,
  usageStoreSuite
} from "@stint/store-testing"
import * as Layer from "effect/Layer"
import * as PostgresAuditStore from "../src/PostgresAuditStore.ts"
import * as PostgresBuildStore from "../src/PostgresBuildStore.ts"
import * as PostgresBulkStore from "../src/PostgresBulkStore.ts"
import * as PostgresEndpointStore from "../src/PostgresEndpointStore.ts"
import * as PostgresJobLogStore from "../src/PostgresJobLogStore.ts"
import * as PostgresJobStore from "../src/PostgresJobStore.ts"
import * as PostgresKeyStore from "../src/PostgresKeyStore.ts"
import * as PostgresRunStore from "../src/PostgresRunStore.ts"
import * as PostgresScheduleStore from "../src/PostgresScheduleStore.ts"
import * as PostgresSecretStore from "../src/PostgresSecretStore.ts"
import * as PostgresTextIndex from "../src/PostgresTextIndex.ts"
import * as PostgresUsageStore from "../src/PostgresUsageStore.ts"
import * as PostgresWebhookStore from "../src/PostgresWebhookStore.ts"
import { makeDatabases, missing, testCluster } from "./TestCluster.ts"

// A database on a busy machine takes longer than a store in this process.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

describe.skipIf(missing !== undefined)(missing ?? "postgres", () => {
  const cluster = testCluster()
  const { layer } = makeDatabases(cluster)

  jobStoreSuite("postgres", PostgresJobStore.layer.pipe(Layer.provide(layer)), {
    sequences: 60,
    storms: 2
  })
  runStoreSuite("postgres", Layer.merge(PostgresJobStore.layer, PostgresRunStore.layer).pipe(Layer.provide(layer)), {
    sequences: 20
  })
  errorGroupSuite("postgres", Layer.merge(PostgresJobStore.layer, PostgresEndpointStore.layer).pipe(Layer.provide(layer)))
  bulkStoreSuite("postgres", Layer.merge(PostgresJobStore.layer, PostgresBulkStore.layer).pipe(Layer.provide(layer)), {
    sequences: 10
  })
  scheduleStoreSuite("postgres", Layer.merge(PostgresJobStore.layer, PostgresScheduleStore.layer).pipe(Layer.provide(layer)), {
    sequences: 10
  })
  textSearchSuite("postgres", Layer.merge(PostgresJobStore.layer, PostgresTextIndex.layer).pipe(Layer.provide(layer)), {
    isIndexed: true,
    sequences: 5
  })
  releaseStoreSuite("postgres", PostgresEndpointStore.layer.pipe(Layer.provide(layer)))
  endpointStoreSuite("postgres", PostgresEndpointStore.layer.pipe(Layer.provide(layer)))
  auditStoreSuite("postgres", PostgresAuditStore.layer.pipe(Layer.provide(layer)))
  buildStoreSuite("postgres", PostgresBuildStore.layer.pipe(Layer.provide(layer)))
  usageStoreSuite("postgres", PostgresUsageStore.layer.pipe(Layer.provide(layer)))
  keyStoreSuite("postgres", PostgresKeyStore.layer.pipe(Layer.provide(layer)))
  secretStoreSuite("postgres", PostgresSecretStore.layer.pipe(Layer.provide(layer)))
  outboxSuite("postgres", Layer.merge(PostgresJobStore.layer, PostgresWebhookStore.layer).pipe(Layer.provide(layer)))
  runWebhookSuite(
    "postgres",
    Layer.mergeAll(PostgresJobStore.layer, PostgresRunStore.layer, PostgresWebhookStore.layer).pipe(Layer.provide(layer))
  )
  endpointRemovalSuite("postgres", Layer.merge(PostgresJobStore.layer, PostgresEndpointStore.layer).pipe(Layer.provide(layer)))
  batchStoreSuite(
    "postgres",
    Layer.mergeAll(PostgresJobStore.layer, PostgresEndpointStore.layer, PostgresWebhookStore.layer).pipe(Layer.provide(layer)),
    { sequences: 25 }
  )
  jobLogStoreSuite("postgres", Layer.merge(PostgresJobStore.layer, PostgresJobLogStore.layer).pipe(Layer.provide(layer)))
})
