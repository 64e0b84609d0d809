import * as KeyStore from "@stint/queue/KeyStore"
import * as MemoryJobStore from "@stint/queue/MemoryJobStore"
import * as Layer from "effect/Layer"
import { suite } from "../src/testing/suite.ts"

suite("memory", Layer.merge(MemoryJobStore.layerWithEndpoints, KeyStore.layerMemory))
