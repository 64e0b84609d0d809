import * as MemoryJobStore from "@stint/queue/MemoryJobStore"
import { removalSuite, suite } from "@stint/queue/testing"
import { sqlite, withPayloads } from "./stores.ts"

// Every text moves, so that there is none that is not tried.
suite("memory with payloads", withPayloads(MemoryJobStore.layer), { sequences: 300 })
suite("sqlite with payloads", withPayloads(sqlite), { sequences: 60 })
removalSuite("memory with payloads", withPayloads(MemoryJobStore.layerWithEndpoints))
removalSuite("sqlite with payloads", withPayloads(sqlite))
