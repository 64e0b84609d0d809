/**
 * The contract's suggestions, for plugins and the SDK, which depend only on the worker.
 */
export { didYouMean } from "@stint/contract/Suggestion"
