/**
 * Shows states with icon, word and colour, so that no state depends on colour alone.
 */
import type { Level } from "../endpoints/EndpointHealth.ts"
import { statusText, type Tone } from "../jobs/JobStates.ts"

const ICONS: Readonly<Record<Tone, string>> = {
  waiting: "M8 4v4l3 2M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Z",
  running: "M6 4.5v7l5-3.5ZM8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Z",
  done: "M4.8 8.2 7 10.4l4.2-4.6M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Z",
  failed: "m5.5 5.5 5 5m0-5-5 5M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Z",
  ended: "M4.5 8h7M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Z"
}

/** The icon of a tone. */
export const Icon = ({ tone }: { readonly tone: Tone }) => (
  <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
    <path d={ICONS[tone]} />
  </svg>
)

/** A word in the style of a tone. */
export const Badge = ({ children, tone }: { readonly tone: Tone; readonly children: string }) => (
  <span className={`badge tone-${tone}`}>
    <Icon tone={tone} />
    {children}
  </span>
)

/** The status of a job. */
export const JobStatus = ({ status }: { readonly status: string }) => {
  const { tone, word } = statusText(status)
  return <Badge tone={tone}>{word}</Badge>
}

const LEVELS: Readonly<Record<Level, Tone>> = { bad: "failed", warn: "waiting", ok: "done" }

/** The state of an endpoint. An endpoint without work is not shown as a success. */
export const EndpointState = ({ level, word }: { readonly level: Level; readonly word: string }) => (
  <Badge
    tone={level !== "ok"
      ? LEVELS[level]
      : word === "Idle" || word === "Paused"
      ? "ended"
      : word === "Running"
      ? "running"
      : "done"}
  >
    {word}
  </Badge>
)

const WORKERS: Readonly<Record<string, readonly [Tone, string]>> = {
  initializing: ["waiting", "Starting"],
  idle: ["done", "Idle"],
  running: ["running", "Running"],
  draining: ["ended", "Draining"],
  unhealthy: ["failed", "Unhealthy"],
  throttled: ["failed", "No capacity"]
}

/** The state of a worker. */
export const WorkerStateBadge = ({ state }: { readonly state: string }) => {
  const [tone, word] = WORKERS[state] ?? ["ended", state]
  return <Badge tone={tone}>{word}</Badge>
}
