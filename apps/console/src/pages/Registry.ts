/**
 * The pages of the console. Each page is one entry here and one file. The entry has its address, its name in the navigation, and a module that is
 * loaded when the page is first opened.
 */
import type { ComponentType } from "react"
import type { Session } from "../api/Api.ts"
import { permits } from "../api/Permissions.ts"

/** A page. */
export interface Page {
  /** `/console/...`; `$name` is a part of the address. The platform serves the console under this prefix only. */
  readonly path: "/" | `/console/${string}`
  /** The title of the window. */
  readonly title: string
  /** Whether the navigation has a link to it, for this key. Default: no link, for pages that other pages link to. */
  readonly isListed?: (session: Session) => boolean
  readonly load: () => Promise<{ readonly default: ComponentType }>
}

/** All pages, in the order of the navigation. */
export const pages: ReadonlyArray<Page> = [
  { path: "/", title: "Home", isListed: () => true, load: () => import("./HomePage.tsx") },
  { path: "/console/jobs", title: "Jobs", isListed: (session) => permits(session, "read"), load: () => import("./JobsPage.tsx") },
  {
    path: "/console/errors",
    title: "Errors",
    isListed: (session) => permits(session, "read"),
    load: () => import("./ErrorsPage.tsx")
  },
  { path: "/console/logs", title: "Logs", isListed: (session) => permits(session, "read"), load: () => import("./LogsPage.tsx") },
  {
    path: "/console/playground",
    title: "Playground",
    isListed: (session) => permits(session, "submit"),
    load: () => import("./PlaygroundPage.tsx")
  },
  {
    path: "/console/pipelines",
    title: "Pipelines",
    isListed: (session) => permits(session, "read"),
    load: () => import("./PipelinesPage.tsx")
  },
  {
    path: "/console/schedules",
    title: "Schedules",
    isListed: (session) => permits(session, "deploy"),
    load: () => import("./SchedulesPage.tsx")
  },
  {
    path: "/console/workers",
    title: "Workers",
    isListed: (session) => permits(session, "view"),
    load: () => import("./WorkersPage.tsx")
  },
  {
    path: "/console/usage",
    title: "Usage",
    isListed: (session) => permits(session, "view"),
    load: () => import("./UsagePage.tsx")
  },
  { path: "/console/keys", title: "Keys", isListed: (session) => permits(session, "keys"), load: () => import("./KeysPage.tsx") },
  {
    path: "/console/audit",
    title: "Audit",
    isListed: (session) => permits(session, "keys"),
    load: () => import("./AuditPage.tsx")
  },
  { path: "/console/endpoints/$endpoint", title: "Endpoint", load: () => import("./EndpointPage.tsx") },
  { path: "/console/builds/new", title: "New endpoint", load: () => import("./NewEndpointPage.tsx") },
  { path: "/console/builds/$endpoint", title: "Builds", load: () => import("./BuildsPage.tsx") },
  { path: "/console/jobs/$endpoint/$id", title: "Job", load: () => import("./JobPage.tsx") },
  { path: "/console/pipelines/$endpoint", title: "Pipeline", load: () => import("./PipelinePage.tsx") },
  { path: "/console/pipelines/$endpoint/$id", title: "Run", load: () => import("./RunPage.tsx") },
  { path: "/console/schedules/new", title: "New schedule", load: () => import("./NewSchedulePage.tsx") },
  { path: "/console/schedules/$endpoint/$schedule", title: "Schedule", load: () => import("./SchedulePage.tsx") }
]
