import * as SqliteEndpointStore from "@stint/store-sqlite/SqliteEndpointStore"
import * as SqliteJobLogStore from "@stint/store-sqlite/SqliteJobLogStore"
import * as SqliteJobStore from "@stint/store-sqlite/SqliteJobStore"
import * as SqliteKeyStore from "@stint/store-sqlite/SqliteKeyStore"
import * as SqliteWebhookStore from "@stint/store-sqlite/SqliteWebhookStore"
import { batchStoreSuite, endpointStoreSuite, jobLogStoreSuite, keyStoreSuite, outboxSuite, endpointRemovalSuite, jobStoreSuite } from "@stint/store-testing"
import * as Layer from "effect/Layer"
import { layerTemp } from "./TestDatabase.ts"

jobStoreSuite("sqlite", SqliteJobStore.layer.pipe(Layer.provide(layerTemp())), { keys: 10_000 })
endpointStoreSuite("sqlite", SqliteEndpointStore.layer.pipe(Layer.provide(layerTemp())))
keyStoreSuite("sqlite", SqliteKeyStore.layer.pipe(Layer.provide(layerTemp())))
outboxSuite("sqlite", Layer.merge(SqliteJobStore.layer, SqliteWebhookStore.layer).pipe(Layer.provide(layerTemp())))
endpointRemovalSuite("sqlite", Layer.merge(SqliteJobStore.layer, SqliteEndpointStore.layer).pipe(Layer.provide(layerTemp())))
batchStoreSuite(
  "sqlite",
  Layer.mergeAll(SqliteJobStore.layer, SqliteEndpointStore.layer, SqliteWebhookStore.layer).pipe(Layer.provide(layerTemp())),
  { sequences: 100 }
)
jobLogStoreSuite("sqlite", Layer.merge(SqliteJobStore.layer, SqliteJobLogStore.layer).pipe(Layer.provide(layerTemp())))
