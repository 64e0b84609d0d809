/**
 * A PostgreSQL database for the platforms of a test, and the settings that nodes of one database share.
 */
import { type ClusterOptions, startCluster, type TestCluster } from "@stint/store-postgres/testing"
import { randomBytes } from "node:crypto"

export interface SharedDatabase extends AsyncDisposable {
  readonly cluster: TestCluster
  readonly url: string
  /** The environment variables of every node. */
  readonly settings: Readonly<Record<string, string>>
}

/** Starts a cluster. A test that kills PostgreSQL needs `fsync`. */
export const startDatabase = async (options: ClusterOptions = {}): Promise<SharedDatabase> => {
  const cluster = await startCluster(options)
  const url = cluster.url("postgres")
  return {
    cluster,
    url,
    settings: {
      STINT_DATABASE: url,
      STINT_API_KEY: randomBytes(24).toString("hex"),
      STINT_SECRETS_KEY: randomBytes(32).toString("base64")
    },
    [Symbol.asyncDispose]: () => cluster.stop()
  }
}
