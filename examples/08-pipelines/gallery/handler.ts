/**
 * The gallery's worker: the pipeline with the layers that its steps require.
 */
import { Downloads } from "@stint/downloads"
import { GuardedHttp } from "@stint/http-guard"
import { Pipeline } from "@stint/pipelines"
import { Worker } from "@stint/worker"
import { Uploads } from "@stint/worker-uploads"
import * as Layer from "effect/Layer"
import { Gallery } from "./Gallery.ts"

Pipeline.layer(Gallery).pipe(
  Layer.provide([Downloads.layer, Uploads.layer, GuardedHttp.layer]),
  Worker.launch
)
