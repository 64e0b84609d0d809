/**
 * Runs workers as Docker or Podman containers.
 */
export * as ContainerPool from "./ContainerPool.ts"
export * as ImageBuilds from "./ImageBuilds.ts"
