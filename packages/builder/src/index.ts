/**
 * Builds endpoints from Git repositories: clones, builds an image with the container engine, pushes it, and deploys it by digest.
 */
export * as BuildEngine from "./BuildEngine.ts"
export * as BuildQueue from "./BuildQueue.ts"
export * as Builds from "./Builds.ts"
