/**
 * Warns at startup about settings that give others more access than an operator may expect.
 */
import type { Support } from "@stint/pool-process/WorkerCgroups"
import * as Effect from "effect/Effect"
import process from "node:process"

/** The facts that the warnings depend on. */
export interface Facts {
  readonly host: string
  /** The configured public URL, if any. */
  readonly publicUrl: string | undefined
  readonly isRoot: boolean
  /** The user that worker processes run as: the platform's, one for all endpoints, or one for each endpoint. */
  readonly workerUser: "platform" | "shared" | "per-endpoint"
}

/** Whether a host name or address, in brackets or not, is this machine. */
export const isLoopback = (host: string): boolean => /^(?:localhost|127(?:\.\d+){3}|\[?::1\]?)$/i.test(host)

/** Each warning states the risk and what to do. */
export const warningsFor = ({ host, isRoot, publicUrl, workerUser }: Facts): ReadonlyArray<string> => [
  ...(isRoot && workerUser === "platform"
    ? [
      "The platform runs as root, and so does every handler: a handler can read and change everything on this machine. Set " +
      "STINT_WORKER_USER to a range of unused ids such as 200000-265535, so that each endpoint has its own user, or start the platform " +
      "as a user without rights."
    ]
    : []),
  ...(!isLoopback(host) && publicUrl?.startsWith("https:") !== true
    ? [
      `The platform listens on ${host} without TLS: keys, inputs and results can be read on the network. Put a TLS proxy in front of it ` +
      "and set STINT_PUBLIC_URL to the proxy's https address, or unset STINT_HOST to listen on this machine only."
    ]
    : [])
]

const NOT_ISOLATED: Readonly<Record<Facts["workerUser"], string>> = {
  platform:
    "Worker processes run as the platform's user, so a handler can read the platform's files and environment, and those of other " +
    "workers.",
  shared:
    "The worker processes of all endpoints run as one user, so a handler can read the environment and the files of other workers. Set " +
    "STINT_WORKER_USER to a range of unused ids such as 200000-265535 to separate them.",
  "per-endpoint": "The worker processes of each endpoint run as their own user."
}

/** What the system can limit. */
export type Limitable = Pick<Support, "enforced" | "missing" | "reason">

const listOf = (names: ReadonlyArray<string>): string =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`

/** What limits the processes. */
const limitsOf = ({ enforced, missing, reason }: Limitable): string =>
  [
    ...(enforced.length === 0 ? [] : [`The limits of their ${listOf(enforced)} are enforced if the endpoint sets them.`]),
    ...(missing.length === 0 ? [] : [`Limits of their ${listOf(missing)} cannot be enforced. ${reason}`])
  ].join(" ")

/** What isolates and limits workers that are processes, and what does not. */
export const isolationOf = (
  { workerUser }: Pick<Facts, "workerUser">,
  support: Limitable
): string => `${NOT_ISOLATED[workerUser]} ${limitsOf(support)} Workers in containers are isolated and limited.`

/** Logs the warnings for this process, and what isolates its workers. */
export const log = (facts: Omit<Facts, "isRoot">, support: Limitable): Effect.Effect<void> =>
  Effect.forEach(
    warningsFor({ ...facts, isRoot: process.getuid?.() === 0 }),
    (warning) => Effect.logWarning(warning),
    { discard: true }
  ).pipe(Effect.andThen(Effect.logInfo(isolationOf(facts, support))))
