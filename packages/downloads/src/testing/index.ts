/**
 * What tests of handlers that download are written with.
 */
export * as DownloadsTest from "./DownloadsTest.ts"
