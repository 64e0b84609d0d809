/**
 * Logs in to a cluster with `@kubernetes/client-node`, an optional peer dependency, which is loaded only here.
 *
 * Only the part of the client that reads kubeconfig files is used, with their certificates, tokens, proxies and exec plugins
 * (docs/decisions/0067-pods.md).
 */
import type * as Client from "@kubernetes/client-node"
import { PoolError, PoolUnavailable } from "@stint/pool/PoolError"
import * as Effect from "effect/Effect"
import type { ClusterAccess, Credentials } from "./KubernetesHttp.ts"
import type { KubernetesSettings } from "./KubernetesSettings.ts"

const unavailable = (problem: string, hint: string) => new PoolError({ reason: new PoolUnavailable({ problem, hint }) })

const wordsOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause)).replace(/\.$/, "")

/** The module. Tests of its absence replace `load`. */
export const login = Effect.fnUntraced(function*(
  { context, kubeconfig }: KubernetesSettings,
  load: () => Promise<Pick<typeof Client, "KubeConfig">> = () => import("@kubernetes/client-node")
): Effect.fn.Return<ClusterAccess, PoolError> {
  const { KubeConfig } = yield* Effect.tryPromise({
    try: load,
    catch: (cause) =>
      unavailable(
        `the client of Kubernetes cannot be loaded (${wordsOf(cause)})`,
        "Install it beside Stint: npm install @kubernetes/client-node@2 (with a global Stint: npm install --global @kubernetes/client-node@2)."
      )
  })
  const config = yield* Effect.try({
    try: () => {
      const read = new KubeConfig()
      if (kubeconfig === undefined) read.loadFromDefault()
      else read.loadFromFile(kubeconfig)
      if (context !== undefined) read.setCurrentContext(context)
      return read
    },
    catch: (cause) =>
      unavailable(`the kubeconfig cannot be read (${wordsOf(cause)})`, "Correct the file, or kubeconfig in STINT_KUBERNETES.")
  })
  const cluster = config.getCurrentCluster()
  if (cluster === null) {
    return yield* unavailable(
      context === undefined
        ? "the kubeconfig has no current context"
        : `the kubeconfig has no cluster for the context "${context}"`,
      "Correct the file, or kubeconfig and context in STINT_KUBERNETES."
    )
  }
  if (!URL.canParse(cluster.server) || !/^https?:$/.test(new URL(cluster.server).protocol)) {
    return yield* unavailable(
      `the server "${cluster.server}" of the kubeconfig is not an https:// address`,
      "Correct the file, or kubeconfig and context in STINT_KUBERNETES."
    )
  }
  return {
    server: cluster.server,
    credentials: async () => {
      const options: Credentials = { headers: {} }
      await config.applyToHTTPSOptions(options)
      return options
    }
  }
})
