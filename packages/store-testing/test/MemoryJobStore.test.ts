import * as EndpointStore from "@stint/store/EndpointStore"
import * as KeyStore from "@stint/store/KeyStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import { batchStoreSuite, endpointStoreSuite, jobLogStoreSuite, keyStoreSuite, outboxSuite, endpointRemovalSuite, jobStoreSuite } from "@stint/store-testing"

jobStoreSuite("memory", MemoryJobStore.layer, { sequences: 1_700, keys: 20_000 })
endpointStoreSuite("memory", EndpointStore.layerMemory)
keyStoreSuite("memory", KeyStore.layerMemory)
outboxSuite("memory", MemoryJobStore.layer)
endpointRemovalSuite("memory", MemoryJobStore.layerWithEndpoints)
batchStoreSuite("memory", MemoryJobStore.layerWithEndpoints, { sequences: 1_000 })
jobLogStoreSuite("memory", MemoryJobStore.layer)
