/**
 * The address at which workers and callers reach this platform.
 *
 * ```
 *   listens on         local programs use     others use
 *   127.0.0.1:4600     127.0.0.1:4600         127.0.0.1:4600
 *   192.168.1.5:4600   192.168.1.5:4600       192.168.1.5:4600
 *   0.0.0.0:4600       127.0.0.1:4600         the first external address of this machine: a guess
 *   [::]:4600          127.0.0.1:4600         the same
 * ```
 */
import * as Context from "effect/Context"
import { type NetworkInterfaceInfo, networkInterfaces } from "node:os"

export class PublicAddress extends Context.Service<PublicAddress, {
  /** The address without a trailing slash: `http://127.0.0.1:4600`. */
  readonly baseUrl: string
  /** The address that the server listens on, when `baseUrl` is a guess derived from it. */
  readonly guessedFrom?: string
}>()("@stint/server/PublicAddress") {}

/** Whether the server listens on every address. Clients cannot connect to such an address. */
const isWildcard = ({ hostname }: URL): boolean => hostname === "0.0.0.0" || hostname === "[::]"

const withHost = (url: URL, hostname: string): string => `${url.protocol}//${hostname}${url.port === "" ? "" : `:${url.port}`}`

/** The address for programs on this machine, for a server that listens on `listening`. */
export const local = (listening: string): string => {
  const url = new URL(listening)
  return isWildcard(url) ? withHost(url, "127.0.0.1") : listening
}

/** The address for other machines, for a server that listens on `listening`. Used when none is configured. */
export const guess = (
  listening: string,
  interfaces: NodeJS.Dict<ReadonlyArray<Pick<NetworkInterfaceInfo, "address" | "family" | "internal">>> = networkInterfaces()
): PublicAddress["Service"] => {
  const url = new URL(listening)
  if (!isWildcard(url)) return { baseUrl: listening }
  const external = Object.values(interfaces).flat().find((one) => one?.family === "IPv4" && !one.internal)
  return { baseUrl: withHost(url, external?.address ?? "127.0.0.1"), guessedFrom: listening }
}
