/**
 * Runs workers as Docker or Podman containers.
 */
export * as ContainerPool from "./ContainerPool.ts"
export * as EngineCheck from "./EngineCheck.ts"
export * as ImageBuilds from "./ImageBuilds.ts"
