/**
 * The part of the CLI that programs import: endpoints as code.
 */
export { defineConfig, type EndpointDefinition, type EndpointsConfig } from "./config/EndpointsFile.ts"
