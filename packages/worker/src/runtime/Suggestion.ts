/**
 * Re-exports the contract's "did you mean" suggestions for plugins and the SDK, because they depend only on the worker.
 */
export { didYouMean } from "@stint/contract/Suggestion"
