import * as EndpointStore from "@stint/queue/EndpointStore"
import * as KeyStore from "@stint/queue/KeyStore"
import * as MemoryJobStore from "@stint/queue/MemoryJobStore"
import { endpointSuite, keySuite, suite } from "@stint/queue/testing"

suite("memory", MemoryJobStore.layer)
endpointSuite("memory", EndpointStore.layerMemory)
keySuite("memory", KeyStore.layerMemory)
