/**
 * The contract's suggestions, for plugins and the SDK, which depend on the worker only.
 */
export { didYouMean } from "@stint/contract/Suggestion"
