/**
 * The part of the CLI that programs import: endpoints as code.
 */
export type { EndpointDefinition } from "./config/EndpointDefinition.ts"
export { defineConfig, type EndpointsConfig } from "./config/EndpointsFile.ts"
