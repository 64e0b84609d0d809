import { layerMemory } from "../src/testing/ServerTest.ts"
import { twoServers } from "../src/testing/TwoServers.ts"

twoServers("memory", layerMemory)
