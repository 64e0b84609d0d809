/**
 * The connection of one node to its database. A test cuts it as a network does: packets are dropped, and neither side learns of it.
 */
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net"
import { join } from "node:path"

/** Which packets are dropped: `both` directions, or only what the database sends. */
export type Partition = "both" | "replies"

export class DatabaseLink implements AsyncDisposable {
  readonly #server: Server
  /** The open connections: to the node, and to the database. */
  readonly #pairs = new Set<readonly [node: Socket, database: Socket]>()
  #partition: Partition | undefined
  #folder: string

  private constructor(folder: string) {
    this.#folder = folder
    this.#server = createServer((node) => this.#forward(node, connect(join(this.#folder, ".s.PGSQL.5432"))))
  }

  /** `folder`: that of the cluster's socket. */
  static async open(folder: string): Promise<DatabaseLink> {
    const link = new DatabaseLink(folder)
    await new Promise<void>((listening) => link.#server.listen(0, "127.0.0.1", listening))
    return link
  }

  /** The address of the database through this link. */
  get url(): string {
    return `postgres://stint@127.0.0.1:${this.port}/postgres`
  }

  /** From now on drops packets, also those of new connections. */
  cut(partition: Partition): void {
    this.#partition = partition
    for (const pair of this.#pairs) this.#apply(pair)
  }

  /** Leads to another cluster from now on, as a proxy does after a failover: the open connections end. `folder`: that of the cluster's socket. */
  moveTo(folder: string): void {
    this.#folder = folder
    for (const [node, database] of this.#pairs) {
      node.destroy()
      database.destroy()
    }
    this.#pairs.clear()
  }

  /** Delivers packets again. Those of the connections that are still open arrive late, as after a repeated transmission. */
  heal(): void {
    this.#partition = undefined
    for (const pair of this.#pairs) this.#apply(pair)
  }

  /** The port on which it listens. */
  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const [node, database] of this.#pairs) {
      node.destroy()
      database.destroy()
    }
    await new Promise((closed) => this.#server.close(closed))
  }

  #forward(node: Socket, database: Socket): void {
    const pair = [node, database] as const
    this.#pairs.add(pair)
    const close = () => {
      // During a partition, the other side does not learn that the connection has ended.
      if (this.#partition !== undefined) return
      this.#pairs.delete(pair)
      node.destroy()
      database.destroy()
    }
    for (const [from, to] of [pair, [database, node] as const]) {
      from.on("data", (data) => to.writable ? to.write(data) : undefined)
      from.on("error", () => {})
      from.on("close", close)
    }
    this.#apply(pair)
  }

  #apply([node, database]: readonly [Socket, Socket]): void {
    if (this.#partition === "both") node.pause()
    else node.resume()
    if (this.#partition !== undefined) return void database.pause()
    database.resume()
    // One side has ended during the partition.
    if (node.destroyed || database.destroyed) {
      node.destroy()
      database.destroy()
    }
  }
}
