import { payloadSuite, PayloadWorld } from "@stint/queue-payloads/testing"
import * as MemoryJobStore from "@stint/queue/MemoryJobStore"
import { removalSuite } from "@stint/queue/testing"

payloadSuite("memory", MemoryJobStore.layer, { sequences: 200, texts: 300 })
removalSuite("memory with payloads", PayloadWorld.withPayloads(MemoryJobStore.layerWithEndpoints))
