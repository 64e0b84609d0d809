import * as EndpointStore from "@stint/queue/EndpointStore"
import * as KeyStore from "@stint/queue/KeyStore"
import * as MemoryJobStore from "@stint/queue/MemoryJobStore"
import * as Layer from "effect/Layer"
import { suite } from "../src/testing/suite.ts"

suite("memory", Layer.mergeAll(MemoryJobStore.layer, EndpointStore.layerMemory, KeyStore.layerMemory))
