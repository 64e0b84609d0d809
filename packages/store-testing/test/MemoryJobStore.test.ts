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
import * as AuditStore from "@stint/store/AuditStore"
import * as BuildStore from "@stint/store/BuildStore"
import * as EndpointStore from "@stint/store/EndpointStore"
import * as KeyStore from "@stint/store/KeyStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as SecretStore from "@stint/store/SecretStore"
import * as UsageStore from "@stint/store/UsageStore"

jobStoreSuite("memory", MemoryJobStore.layer, { sequences: 1_700, keys: 20_000 })
releaseStoreSuite("memory", EndpointStore.layerMemory)
endpointStoreSuite("memory", EndpointStore.layerMemory)
keyStoreSuite("memory", KeyStore.layerMemory)
secretStoreSuite("memory", SecretStore.layerMemory)
auditStoreSuite("memory", AuditStore.layerMemory)
usageStoreSuite("memory", UsageStore.layerMemory)
buildStoreSuite("memory", BuildStore.layerMemory)
outboxSuite("memory", MemoryJobStore.layer)
endpointRemovalSuite("memory", MemoryJobStore.layerWithEndpoints)
batchStoreSuite("memory", MemoryJobStore.layerWithEndpoints, { sequences: 1_000 })
jobLogStoreSuite("memory", MemoryJobStore.layer)
runStoreSuite("memory", MemoryJobStore.layer, { sequences: 400 })
runWebhookSuite("memory", MemoryJobStore.layer)
bulkStoreSuite("memory", MemoryJobStore.layer, { sequences: 300 })
errorGroupSuite("memory", MemoryJobStore.layerWithEndpoints)
textSearchSuite("memory", MemoryJobStore.layer, { isIndexed: false })
scheduleStoreSuite("memory", MemoryJobStore.layer, { sequences: 300 })
