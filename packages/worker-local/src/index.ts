/**
 * Local test mode with `--rp_serve_api`: a handler behind HTTP, without a platform.
 */
export * as LocalServer from "./LocalServer.ts"
