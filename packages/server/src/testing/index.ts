/**
 * The server under test, and the suite that it has to pass over any store.
 */
export * as RawSocket from "./RawSocket.ts"
export * as ServerTest from "./ServerTest.ts"
export { suite } from "./suite.ts"
export * as TestEndpoint from "./TestEndpoint.ts"
export * from "./TwoServers.ts"
export * as WireClient from "./WireClient.ts"
export * as WireWorker from "./WireWorker.ts"
