import { payloadSuite, PayloadWorld } from "@stint/queue-payloads/testing"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import { endpointRemovalSuite } from "@stint/store-testing"

payloadSuite("memory", MemoryJobStore.layer, { sequences: 200, texts: 300 })
endpointRemovalSuite("memory with payloads", PayloadWorld.withPayloads(MemoryJobStore.layerWithEndpoints))
