/**
 * Where Stint keeps payloads that are too large for its database.
 */
export * as DirectoryPayloadStore from "./DirectoryPayloadStore.ts"
export * as MemoryPayloadStore from "./MemoryPayloadStore.ts"
export * as PayloadError from "./PayloadError.ts"
export * as PayloadStore from "./PayloadStore.ts"
