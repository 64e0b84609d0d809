/**
 * The wire's rules where hot calls have no short way: both ways are held to the same suite (HotRoutes.ts).
 */
import { suite } from "../src/HttpSuite.ts"
import { layerMemory } from "../src/ServerTest.ts"

suite("memory, all by way of the HttpApi", layerMemory, { fastPath: false })
