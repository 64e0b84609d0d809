/**
 * Progress of a running job, for handler functions (docs/spec/progress.md#reporting-progress).
 */
export { progress_update } from "./ProgressFacade.ts"
