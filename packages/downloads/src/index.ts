/**
 * Downloads for workers: the URLs of a job's input become local files that are removed when the job ends.
 */
export { DownloadError } from "./DownloadError.ts"
export * as Downloads from "./Downloads.ts"
