import * as SqliteEndpointStore from "@stint/queue-sqlite/SqliteEndpointStore"
import * as SqliteJobStore from "@stint/queue-sqlite/SqliteJobStore"
import { endpointSuite, suite } from "@stint/queue/testing"
import * as Layer from "effect/Layer"
import { layerTemp } from "./TestDatabase.ts"

suite("sqlite", SqliteJobStore.layer.pipe(Layer.provide(layerTemp())))
endpointSuite("sqlite", SqliteEndpointStore.layer.pipe(Layer.provide(layerTemp())))
