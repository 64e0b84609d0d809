/**
 * Downloads of the worker: the URLs that a job came with become local files that are gone when the job ends.
 */
export { DownloadError } from "./DownloadError.ts"
export * as Downloads from "./Downloads.ts"
