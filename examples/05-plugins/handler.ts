/**
 * The worker: the handler, its plugins, and its own service.
 */
import { Downloads } from "@stint/downloads"
import { Worker } from "@stint/worker"
import { Progress } from "@stint/worker-progress"
import { Uploads } from "@stint/worker-uploads"
import * as Layer from "effect/Layer"
import * as Images from "./Images.ts"
import { Thumbnail } from "./Thumbnail.ts"

Worker.layer(Thumbnail, { middleware: [Progress.middleware] }).pipe(
  Layer.provide([Downloads.layer, Uploads.layer, Images.layer]),
  Worker.launch
)
