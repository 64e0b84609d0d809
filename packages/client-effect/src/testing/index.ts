/**
 * A client over handlers that run in the test's process, without a server.
 */
export * as ClientTest from "./ClientTest.ts"
