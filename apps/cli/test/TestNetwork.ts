/**
 * A network of several machines inside this one, for tests that drop packets.
 *
 * ```
 *   this machine ── bridge ──┬── machine 1: a network namespace
 *   10.213.N.1               │     10.213.N.2
 *                            └── machine 2 ...
 *                                  10.213.N.3
 * ```
 *
 * No packet leaves this machine: no other interface is connected to the bridge.
 */
import { execFileSync, spawnSync } from "node:child_process"
import process from "node:process"

const run = (command: string, ...args: ReadonlyArray<string>) =>
  void execFileSync(command, args, { stdio: ["ignore", "ignore", "pipe"] })

/** Why a network cannot be made here; undefined if it can. */
export const missingNetwork = ((): string | undefined => {
  if (process.platform !== "linux" || process.getuid?.() !== 0) return "needs root on Linux"
  for (const program of ["ip", "iptables"]) {
    if (spawnSync(program, ["-V"]).status !== 0) return `PATH has no ${program}: apt-get install iproute2 iptables`
  }
  const name = `stint-try-${process.pid}`
  const made = spawnSync("ip", ["netns", "add", name])
  if (made.status !== 0) return `this machine refuses network namespaces: ${made.stderr.toString().trim()}`
  spawnSync("ip", ["netns", "delete", name])
  return undefined
})()

/** Which packets are lost: the machine's requests, the responses to them, or both. */
export type Dropped = "requests" | "responses" | "both"

/** A machine of the network. */
export class TestMachine {
  readonly #exec: ReadonlyArray<string>

  constructor(namespace: string) {
    this.#exec = ["netns", "exec", namespace]
  }

  /** The command that runs another one on this machine. */
  get within(): ReadonlyArray<string> {
    return ["ip", ...this.#exec]
  }

  /** Drops packets from now on. The programs receive no error: their connections stay open, but no segment is acknowledged. */
  drop(what: Dropped): void {
    for (const chain of what === "both" ? ["INPUT", "OUTPUT"] : [what === "requests" ? "OUTPUT" : "INPUT"]) {
      run("ip", ...this.#exec, "iptables", "--append", chain, "--jump", "DROP")
    }
  }

  /** Delivers all packets again. */
  heal(): void {
    run("ip", ...this.#exec, "iptables", "--flush")
  }
}

/** The network. */
export class TestNetwork implements Disposable {
  /** The address of this machine. */
  readonly host: string
  readonly #name = `st${process.pid}`
  readonly #part = `10.213.${process.pid % 250}`
  readonly #namespaces: Array<string> = []

  constructor() {
    this.host = `${this.#part}.1`
    run("ip", "link", "add", this.#name, "type", "bridge")
    run("ip", "address", "add", `${this.host}/24`, "dev", this.#name)
    run("ip", "link", "set", this.#name, "up")
  }

  /** Adds a machine. */
  machine(): TestMachine {
    const at = this.#namespaces.length + 2
    const namespace = `${this.#name}-${at}`
    run("ip", "netns", "add", namespace)
    this.#namespaces.push(namespace)
    const [here, there] = [`${this.#name}a${at}`, `${this.#name}b${at}`]
    run("ip", "link", "add", here, "type", "veth", "peer", "name", there, "netns", namespace)
    run("ip", "link", "set", here, "master", this.#name, "up")
    run("ip", "-n", namespace, "address", "add", `${this.#part}.${at}/24`, "dev", there)
    for (const link of [there, "lo"]) run("ip", "-n", namespace, "link", "set", link, "up")
    return new TestMachine(namespace)
  }

  [Symbol.dispose](): void {
    // The links of a namespace end with it.
    for (const namespace of this.#namespaces) spawnSync("ip", ["netns", "delete", namespace])
    spawnSync("ip", ["link", "delete", this.#name])
  }
}
