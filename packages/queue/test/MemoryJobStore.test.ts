import * as EndpointStore from "@stint/queue/EndpointStore"
import * as MemoryJobStore from "@stint/queue/MemoryJobStore"
import { endpointSuite, suite } from "@stint/queue/testing"

suite("memory", MemoryJobStore.layer)
endpointSuite("memory", EndpointStore.layerMemory)
