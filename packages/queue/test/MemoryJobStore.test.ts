import * as EndpointStore from "@stint/queue/EndpointStore"
import * as KeyStore from "@stint/queue/KeyStore"
import * as MemoryJobStore from "@stint/queue/MemoryJobStore"
import { batchSuite, endpointSuite, jobLogSuite, keySuite, outboxSuite, removalSuite, suite } from "@stint/queue/testing"

suite("memory", MemoryJobStore.layer, { sequences: 1_700, keys: 20_000 })
endpointSuite("memory", EndpointStore.layerMemory)
keySuite("memory", KeyStore.layerMemory)
outboxSuite("memory", MemoryJobStore.layer)
removalSuite("memory", MemoryJobStore.layerWithEndpoints)
batchSuite("memory", MemoryJobStore.layerWithEndpoints, { sequences: 1_000 })
jobLogSuite("memory", MemoryJobStore.layer)
