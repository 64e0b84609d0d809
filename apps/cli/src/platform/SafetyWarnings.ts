/**
 * Warns at the start about settings that give others more access than an operator may expect.
 */
import * as Effect from "effect/Effect"
import process from "node:process"

/** The facts that the warnings depend on. */
export interface Facts {
  readonly host: string
  /** The configured public URL, if any. */
  readonly publicUrl: string | undefined
  readonly isRoot: boolean
  /** Whether workers run as a user of their own. */
  readonly hasWorkerUser: boolean
}

/** Whether a host name or address, in brackets or not, is this machine. */
export const isLoopback = (host: string): boolean => /^(?:localhost|127(?:\.\d+){3}|\[?::1\]?)$/i.test(host)

/** Each warning states the risk and the way out. */
export const warningsFor = ({ hasWorkerUser, host, isRoot, publicUrl }: Facts): ReadonlyArray<string> => [
  ...(isRoot && !hasWorkerUser
    ? [
      "The platform runs as root, and so does every handler: a handler can read and change everything on this machine. Set " +
      "STINT_WORKER_USER to a user without rights, or start the platform as such a user."
    ]
    : []),
  ...(!isLoopback(host) && publicUrl?.startsWith("https:") !== true
    ? [
      `The platform listens on ${host} without TLS: keys, inputs and results can be read on the network. Put a TLS proxy in front of it ` +
      "and set STINT_PUBLIC_URL to the proxy's https address, or unset STINT_HOST to listen on this machine only."
    ]
    : [])
]

/** Logs the warnings for this process. */
export const log = (facts: Omit<Facts, "isRoot">): Effect.Effect<void> =>
  Effect.forEach(
    warningsFor({ ...facts, isRoot: process.getuid?.() === 0 }),
    (warning) => Effect.logWarning(warning),
    { discard: true }
  )
