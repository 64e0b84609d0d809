/**
 * For tests of handlers that download.
 */
export * as DownloadsTest from "./DownloadsTest.ts"
