/**
 * The audit page's filter, as stored in its address.
 */
import type { AuditResult } from "@stint/contract/Audit"
import { textAt } from "../format/AddressQuery.ts"

/** All results, in the order of their buttons. */
export const AUDIT_RESULTS: ReadonlyArray<AuditResult> = ["done", "refused", "failed"]

/** A filter. An empty text does not filter. */
export interface AuditFilter {
  readonly action: string
  readonly target: string
  readonly key: string
  readonly result: AuditResult | ""
}

/** Reads the filter from the parsed query of the address. An unknown result is ignored. */
export const auditFilterOf = (search: unknown): AuditFilter => ({
  action: textAt(search, "action"),
  target: textAt(search, "target"),
  key: textAt(search, "key"),
  result: AUDIT_RESULTS.find((result) => result === textAt(search, "result")) ?? ""
})
