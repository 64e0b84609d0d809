import { jobPayloadsSuite, TestPayloads } from "@stint/payloads-testing"
import { endpointRemovalSuite } from "@stint/store-testing"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"

jobPayloadsSuite("memory", MemoryJobStore.layer, { sequences: 200, texts: 300 })
endpointRemovalSuite("memory with payloads", TestPayloads.withPayloads(MemoryJobStore.layerWithEndpoints))
