/**
 * The operations on the model cache, a part of the control API (docs/operations/models.md).
 *
 * ```
 *   /api/v1/models                  GET     the models in the cache, and the downloads
 *                                   POST    download a model, or check whether its branch has moved
 *   /api/v1/models/{owner}/{name}   DELETE  refused while a worker uses it
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { ControlAuthorization } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { bodyErrors, Conflict, InvalidRequest, ModelNotFound, Unavailable } from "../Problem.ts"
import { ModelCache, ModelDownload, ModelPull, ModelRemoval } from "./Model.ts"

/** The operations on models. */
export class ModelsApi extends HttpApiGroup.make("models")
  .add(
    HttpApiEndpoint.get("listModels", "/models", {
      success: ModelCache,
      error: Unavailable
    }).annotateMerge(operationDocs({
      summary: "List models",
      description:
        "Lists the models in the cache of the platform's machine, with their sizes, the time of their last use and the endpoints that use " +
        "them, and the downloads that are in progress or have failed."
    })),
    HttpApiEndpoint.post("pullModel", "/models", {
      payload: ModelPull,
      success: ModelDownload.pipe(HttpApiSchema.status(202)),
      error: [InvalidRequest, ...bodyErrors, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Download a model",
      description:
        "Starts the download of a model and returns without waiting for it; `GET /models` shows the progress. If the branch has moved since " +
        "the last download, its new commit is downloaded, and workers that start later use that.",
      request: { model: "openai/whisper-large-v3", token: "hf-token" }
    })),
    HttpApiEndpoint.delete("removeModel", "/models/:owner/:name", {
      params: {
        owner: Schema.String.annotate({ description: "The part of the model's id before the slash." }),
        name: Schema.String.annotate({ description: "The part of the model's id after the slash." })
      },
      success: ModelRemoval,
      error: [ModelNotFound, InvalidRequest, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Remove a model",
      description:
        "Removes all commits of a model from the cache. Returns 409 while a worker uses it or while it is being downloaded. An endpoint whose " +
        "model was removed downloads it again when a worker starts."
    }))
  )
  .middleware(ControlAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Models", description: "Manage the model cache" }))
{}
