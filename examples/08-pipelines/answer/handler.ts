/**
 * The worker of answers.
 */
import { Pipeline } from "@stint/pipelines"
import { Answer } from "./Answer.ts"

Pipeline.launch(Answer)
