/**
 * The gallery's worker: the pipeline with the layers that its steps require.
 */
import { Pipeline } from "@stint/pipelines"
import { Worker } from "@stint/worker"
import * as Layer from "effect/Layer"
import * as Gallery from "./Gallery.ts"

Pipeline.layer(Gallery.Gallery).pipe(Layer.provide(Gallery.layer), Worker.launch)
