/**
 * Runs workers as containers of Docker or Podman.
 */
export * as ContainerPool from "./ContainerPool.ts"
export * as ImageBuilds from "./ImageBuilds.ts"
