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
import * as SqliteAuditStore from "../src/SqliteAuditStore.ts"
import * as SqliteBuildStore from "../src/SqliteBuildStore.ts"
import * as SqliteEndpointStore from "../src/SqliteEndpointStore.ts"
import * as SqliteJobLogStore from "../src/SqliteJobLogStore.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import * as SqliteKeyStore from "../src/SqliteKeyStore.ts"
import * as SqliteSecretStore from "../src/SqliteSecretStore.ts"
import * as SqliteUsageStore from "../src/SqliteUsageStore.ts"
import * as SqliteWebhookStore from "../src/SqliteWebhookStore.ts"
import { layerTemp } from "./TestDatabase.ts"

jobStoreSuite("sqlite", SqliteJobStore.layer.pipe(Layer.provide(layerTemp())), { keys: 10_000 })
releaseStoreSuite("sqlite", SqliteEndpointStore.layer.pipe(Layer.provide(layerTemp())))
endpointStoreSuite("sqlite", SqliteEndpointStore.layer.pipe(Layer.provide(layerTemp())))
keyStoreSuite("sqlite", SqliteKeyStore.layer.pipe(Layer.provide(layerTemp())))
secretStoreSuite("sqlite", SqliteSecretStore.layer.pipe(Layer.provide(layerTemp())))
auditStoreSuite("sqlite", SqliteAuditStore.layer.pipe(Layer.provide(layerTemp())))
usageStoreSuite("sqlite", SqliteUsageStore.layer.pipe(Layer.provide(layerTemp())))
buildStoreSuite("sqlite", SqliteBuildStore.layer.pipe(Layer.provide(layerTemp())))
outboxSuite("sqlite", Layer.merge(SqliteJobStore.layer, SqliteWebhookStore.layer).pipe(Layer.provide(layerTemp())))
endpointRemovalSuite("sqlite", Layer.merge(SqliteJobStore.layer, SqliteEndpointStore.layer).pipe(Layer.provide(layerTemp())))
batchStoreSuite(
  "sqlite",
  Layer.mergeAll(SqliteJobStore.layer, SqliteEndpointStore.layer, SqliteWebhookStore.layer).pipe(Layer.provide(layerTemp())),
  { sequences: 100 }
)
jobLogStoreSuite("sqlite", Layer.merge(SqliteJobStore.layer, SqliteJobLogStore.layer).pipe(Layer.provide(layerTemp())))
runStoreSuite("sqlite", SqliteJobStore.layer.pipe(Layer.provide(layerTemp())), { sequences: 30 })
runWebhookSuite("sqlite", Layer.merge(SqliteJobStore.layer, SqliteWebhookStore.layer).pipe(Layer.provide(layerTemp())))
bulkStoreSuite("sqlite", SqliteJobStore.layer.pipe(Layer.provide(layerTemp())), { sequences: 30 })
errorGroupSuite("sqlite", Layer.merge(SqliteJobStore.layer, SqliteEndpointStore.layer).pipe(Layer.provide(layerTemp())))
textSearchSuite("sqlite", SqliteJobStore.layer.pipe(Layer.provide(layerTemp())), { isIndexed: true })
scheduleStoreSuite("sqlite", SqliteJobStore.layer.pipe(Layer.provide(layerTemp())), { sequences: 30 })
