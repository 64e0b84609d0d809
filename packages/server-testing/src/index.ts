/**
 * The server under test, and the conformance suite for all stores.
 */
export { suite } from "./HttpSuite.ts"
export * as RawSocket from "./RawSocket.ts"
export * as ServerTest from "./ServerTest.ts"
export * as TestEndpoint from "./TestEndpoint.ts"
export * from "./TwoServersSuite.ts"
export * as WireClient from "./WireClient.ts"
export * as WireWorker from "./WireWorker.ts"
