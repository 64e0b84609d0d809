/**
 * The server under test, and the suite that it has to pass over any store.
 */
export { suite } from "./HttpSuite.ts"
export * as RawSocket from "./RawSocket.ts"
export * as ServerTest from "./ServerTest.ts"
export * as TestEndpoint from "./TestEndpoint.ts"
export * from "./TwoServersSuite.ts"
export * as WireClient from "./WireClient.ts"
export * as WireWorker from "./WireWorker.ts"
