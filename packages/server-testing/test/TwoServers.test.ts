import { layerMemory } from "../src/ServerTest.ts"
import { twoServersSuite } from "../src/TwoServersSuite.ts"

twoServersSuite("memory", layerMemory)
