/**
 * The wire's rules where hot calls have no short way: both ways are held to the same suite (HotRoutes.ts).
 */
import { layerMemory } from "../src/testing/ServerTest.ts"
import { suite } from "../src/testing/suite.ts"

suite("memory, all by way of the HttpApi", layerMemory, { shortWay: false })
