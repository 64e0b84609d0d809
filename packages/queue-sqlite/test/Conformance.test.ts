import * as SqliteEndpointStore from "@stint/queue-sqlite/SqliteEndpointStore"
import * as SqliteJobLogStore from "@stint/queue-sqlite/SqliteJobLogStore"
import * as SqliteJobStore from "@stint/queue-sqlite/SqliteJobStore"
import * as SqliteKeyStore from "@stint/queue-sqlite/SqliteKeyStore"
import * as SqliteWebhookStore from "@stint/queue-sqlite/SqliteWebhookStore"
import { batchSuite, endpointSuite, jobLogSuite, keySuite, outboxSuite, removalSuite, suite } from "@stint/queue/testing"
import * as Layer from "effect/Layer"
import { layerTemp } from "./TestDatabase.ts"

suite("sqlite", SqliteJobStore.layer.pipe(Layer.provide(layerTemp())), { keys: 10_000 })
endpointSuite("sqlite", SqliteEndpointStore.layer.pipe(Layer.provide(layerTemp())))
keySuite("sqlite", SqliteKeyStore.layer.pipe(Layer.provide(layerTemp())))
outboxSuite("sqlite", Layer.merge(SqliteJobStore.layer, SqliteWebhookStore.layer).pipe(Layer.provide(layerTemp())))
removalSuite("sqlite", Layer.merge(SqliteJobStore.layer, SqliteEndpointStore.layer).pipe(Layer.provide(layerTemp())))
batchSuite(
  "sqlite",
  Layer.mergeAll(SqliteJobStore.layer, SqliteEndpointStore.layer, SqliteWebhookStore.layer).pipe(Layer.provide(layerTemp())),
  { sequences: 100 }
)
jobLogSuite("sqlite", Layer.merge(SqliteJobStore.layer, SqliteJobLogStore.layer).pipe(Layer.provide(layerTemp())))
