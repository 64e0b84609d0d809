/**
 * Tests callers against a mock platform, without a server.
 */
export * as ClientTest from "./ClientTest.ts"
