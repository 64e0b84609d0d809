/**
 * What programs use of the CLI: endpoints as code.
 */
export { defineConfig, type EndpointDefinition, type EndpointsConfig } from "./config/EndpointsFile.ts"
