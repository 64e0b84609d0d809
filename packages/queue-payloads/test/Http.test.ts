/**
 * The whole HTTP conformance suite with every input and output in a payload store: nobody outside can tell.
 */
import { PayloadWorld } from "@stint/queue-payloads/testing"
import { ServerTest, suite } from "@stint/server/testing"

suite("memory with payloads", PayloadWorld.withPayloads(ServerTest.layerMemory))
