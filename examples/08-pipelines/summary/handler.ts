/**
 * The worker of summaries.
 */
import { Pipeline } from "@stint/pipelines"
import { Summary } from "./Summary.ts"

Pipeline.launch(Summary)
