/**
 * Models of Stint workers: a cache on the machine in the layout of the hub's own client, filled from a model hub.
 */
export * as HostModels from "./HostModels.ts"
export * as ModelError from "./ModelError.ts"
export * as Models from "./Models.ts"
export * as ProgressText from "./ProgressText.ts"
