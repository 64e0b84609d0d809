/**
 * The control API of the audit.
 */
import { Api } from "@stint/contract/Api"
import * as Effect from "effect/Effect"
import { HttpApiBuilder } from "effect/http-api"
import { AuditLog } from "../audit/AuditLog.ts"
import { mapStoreErrors } from "../http/QueueProblems.ts"

const DEFAULT_LIMIT = 50

export const layer = HttpApiBuilder.group(
  Api,
  "audit",
  Effect.fnUntraced(function*(handlers) {
    const { list } = yield* AuditLog
    return handlers.handle(
      "listAudit",
      Effect.fnUntraced(function*({ query: { cursor, limit = DEFAULT_LIMIT, ...filters } }) {
        const entries = yield* mapStoreErrors(list({ ...filters, limit: limit + 1, before: cursor }))
        const page = entries.slice(0, limit)
        return { entries: page, cursor: entries.length > limit ? page.at(-1)?.id ?? null : null }
      })
    )
  })
)
