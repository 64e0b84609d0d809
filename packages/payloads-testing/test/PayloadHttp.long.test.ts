/**
 * The HTTP conformance suite with every input and output in a payload store: callers cannot see the difference.
 */
import { TestPayloads } from "@stint/payloads-testing"
import { ServerTest, suite } from "@stint/server-testing"

suite("memory with payloads", TestPayloads.withPayloads(ServerTest.layerMemory), { texts: "payload store" })
