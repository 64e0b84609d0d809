import { layerMemory } from "../src/testing/ServerTest.ts"
import { suite } from "../src/testing/suite.ts"

suite("memory", layerMemory)
