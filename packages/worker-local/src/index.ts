/**
 * Local test mode with `--rp_serve_api`: serves a handler over HTTP, without a platform.
 */
export * as LocalServer from "./LocalServer.ts"
