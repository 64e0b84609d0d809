/**
 * The items that the command palette offers for a text.
 */
import type { Session } from "../api/Api.ts"
import { permits } from "../api/Permissions.ts"
import { pages } from "./Registry.ts"

/** A place to go to. */
export interface PaletteItem {
  readonly label: string
  /** The address in the console. */
  readonly href: string
}

/** The maximum number of items that are shown. */
const MOST = 14

/** Job ids are UUIDs, some of them with a suffix. */
const JOB_ID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?:-[a-z0-9]+)?$/i

const part = encodeURIComponent

const ofEndpoint = (session: Session, endpoint: string): ReadonlyArray<PaletteItem> => [
  { label: endpoint, href: `/console/endpoints/${part(endpoint)}` },
  ...(permits(session, "read", endpoint)
    ? [
      { label: `Jobs of ${endpoint}`, href: `/console/jobs?endpoint=${part(endpoint)}` },
      { label: `Failed jobs of ${endpoint}`, href: `/console/jobs?endpoint=${part(endpoint)}&status=FAILED` },
      { label: `Logs of ${endpoint}`, href: `/console/logs?endpoint=${part(endpoint)}` }
    ]
    : []),
  ...(permits(session, "submit", endpoint)
    ? [{ label: `Run a job on ${endpoint}`, href: `/console/playground?endpoint=${part(endpoint)}` }]
    : []),
  ...(permits(session, "view", endpoint)
    ? [
      { label: `Workers of ${endpoint}`, href: `/console/workers?endpoint=${part(endpoint)}` },
      { label: `Usage of ${endpoint}`, href: `/console/usage?endpoint=${part(endpoint)}&by=release` }
    ]
    : [])
]

/**
 * The items whose label contains every word of the text. For a job id, the job on each endpoint that the key can read. Labels that begin with
 * the text come first.
 */
export const paletteItems = (session: Session, endpoints: ReadonlyArray<string>, text: string): ReadonlyArray<PaletteItem> => {
  const wanted = text.trim().toLowerCase()
  if (JOB_ID.test(wanted)) {
    return endpoints.filter((endpoint) => permits(session, "read", endpoint)).slice(0, MOST).map((endpoint) => ({
      label: `Job ${wanted.slice(0, 8)} of ${endpoint}`,
      href: `/console/jobs/${part(endpoint)}/${part(wanted)}`
    }))
  }
  const all: ReadonlyArray<PaletteItem> = [
    ...pages.filter(({ isListed }) => isListed?.(session) === true).map(({ path, title }) => ({ label: title, href: path })),
    ...endpoints.flatMap((endpoint) => ofEndpoint(session, endpoint))
  ]
  const words = wanted.split(/\s+/)
  const matches = all.filter(({ label }) => words.every((word) => label.toLowerCase().includes(word)))
  const starts = ({ label }: PaletteItem) => label.toLowerCase().startsWith(wanted)
  return [...matches.filter(starts), ...matches.filter((item) => !starts(item))].slice(0, MOST)
}
