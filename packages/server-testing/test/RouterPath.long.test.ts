/**
 * Runs the suite without the fast path: both paths must pass the same suite (FastPath.ts).
 */
import { suite } from "../src/HttpSuite.ts"
import { layerMemory } from "../src/ServerTest.ts"

suite("memory, without the fast path", layerMemory, { fastPath: false })
