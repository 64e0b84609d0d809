/**
 * The operation that backs up the platform, a part of the control API (docs/operations/backup.md).
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { KeysAuthorization } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { Conflict, Unavailable } from "../Problem.ts"

/** The operation on the whole platform. */
export class BackupApi extends HttpApiGroup.make("backup")
  .add(
    HttpApiEndpoint.post("backup", "/backup", {
      success: HttpApiSchema.StreamUint8Array({ contentType: "application/x-tar" }),
      error: [Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Back up the platform",
      description:
        "Returns a tar archive with the database, the payloads in a local folder, the platform's keys and its settings, all from the same moment. Jobs " +
        "continue meanwhile. Every job that was confirmed before `moment`, which is in the first file of the archive, is in the database. " +
        "The archive is complete only if its last file, `SHA256SUMS`, has arrived. Requires an admin key, because the archive contains all " +
        "inputs and results and the secrets of the platform. Returns 409 while another backup runs, and on a platform that stores its jobs " +
        "in memory."
    }))
  )
  .middleware(KeysAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Backup", description: "Back up the platform" }))
{}
