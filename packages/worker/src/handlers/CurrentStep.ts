/**
 * The step of a pipeline that runs, for the lines that it logs.
 */
import * as Context from "effect/Context"

/** The path of the step (docs/spec/pipelines.md#paths). Default: undefined, outside of steps. */
export const CurrentStep = Context.Reference<string | undefined>("@stint/worker/CurrentStep", { defaultValue: () => undefined })
