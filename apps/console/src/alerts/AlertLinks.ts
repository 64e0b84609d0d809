/**
 * Where the reader looks when an alert fires.
 */
import type { AlertKind } from "@stint/contract/Alert"

/** A page of the console. */
export interface AlertLink {
  readonly label: string
  readonly to: `/console/${string}`
  readonly search?: Readonly<Record<string, string>>
}

/** The pages for an alert, the most helpful first. None for a problem of the platform that the console does not show. */
export const linksOf = (
  { endpoint, kind }: { readonly kind: AlertKind; readonly endpoint?: string | undefined }
): ReadonlyArray<AlertLink> => {
  if (endpoint === undefined) return kind === "budget_reached" ? [{ label: "Usage", to: "/console/usage" }] : []
  const search = { endpoint }
  const jobs = (label: string, status: string): AlertLink => ({ label, to: "/console/jobs", search: { endpoint, status } })
  const workers: AlertLink = { label: "Workers", to: "/console/workers", search }
  const page: AlertLink = { label: "The endpoint", to: `/console/endpoints/${encodeURIComponent(endpoint)}` }
  switch (kind) {
    case "endpoint_failing":
      return [{ label: "Errors", to: "/console/errors", search }, jobs("Failed jobs", "FAILED")]
    case "workers_failing":
      return [workers, page]
    case "queue_old":
      return [jobs("Waiting jobs", "IN_QUEUE"), workers]
    case "build_failed":
      return [{ label: "Builds", to: `/console/builds/${encodeURIComponent(endpoint)}` }]
    case "budget_reached":
      return [{ label: "Usage", to: "/console/usage", search }]
    default:
      return [page]
  }
}
