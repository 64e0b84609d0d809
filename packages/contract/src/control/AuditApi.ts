/**
 * The operation that reads the audit log, a part of the control API (docs/operations/audit.md).
 *
 * ```
 *   /api/v1/audit   GET   newest first: ?action ?key ?target ?result ?since ?limit ?cursor
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import { KeysAuthorization } from "../Authorization.ts"
import { timeText } from "../jobs/JobList.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { InvalidRequest, Unavailable } from "../Problem.ts"
import { AuditEntry, AuditResult } from "./Audit.ts"

/** The maximum number of entries in a page. */
export const AUDIT_PAGE_LIMIT = 200

const filter = (description: string) =>
  Schema.optionalKey(Schema.String.check(Schema.isMaxLength(1_000)).annotate({ description }))

const integer = (description: string, minimum: number, maximum: number) =>
  Schema.optionalKey(
    Schema.String.annotate({ description }).pipe(
      Schema.decodeTo(Schema.Int.check(Schema.isBetween({ minimum, maximum })), SchemaTransformation.numberFromString)
    )
  )

/** Filters and pagination of the audit log. All keys are optional. */
const AuditQuery = {
  action: filter("Only this operation, or only operations of this group: `keys.createKey`, `keys`."),
  key: filter("Only operations with this key: its id, or its name at the time."),
  target: filter("Only operations on this target and what belongs to it: `endpoint/hello`, `secret/hf-token`."),
  result: Schema.optionalKey(AuditResult.annotate({ description: "Only operations with this result." })),
  since: Schema.optionalKey(timeText("Only operations at or after this time.")),
  limit: integer(`The maximum number of entries: 1 to ${AUDIT_PAGE_LIMIT}. Default: 50.`, 1, AUDIT_PAGE_LIMIT),
  cursor: integer("The `cursor` of the previous page.", 1, Number.MAX_SAFE_INTEGER)
}

/** One page of the audit log, newest first. */
export const AuditPage = Schema.Struct({
  entries: Schema.Array(AuditEntry),
  /** The cursor of the next page. Null at the end of the list. */
  cursor: Schema.NullOr(Schema.Int)
})
export type AuditPage = typeof AuditPage.Type

/** The operation that reads the audit log. */
export class AuditApi extends HttpApiGroup.make("audit")
  .add(
    HttpApiEndpoint.get("listAudit", "/audit", {
      query: AuditQuery,
      success: AuditPage,
      error: [InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "List audited operations",
      description: "Lists who changed what, newest first: successful, refused and failed operations. Entries contain no keys, " +
        "secret values or inputs. Pass the `cursor` of the response to read the next page, until it is null. Requires an admin key.",
      responses: {
        200: {
          entries: [{
            id: 17,
            at: 1_790_000_000_000,
            action: "releases.rollback",
            target: "endpoint/hello/release/7",
            key: "0123456789abcdef",
            name: "ci",
            via: "api",
            address: "192.0.2.7",
            result: "done",
            status: 201
          }],
          cursor: 17
        }
      }
    }))
  )
  .middleware(KeysAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Audit", description: "Who changed what" }))
{}
