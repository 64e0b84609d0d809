/**
 * Logs in to a cluster: with the service account of the platform's own pod, or else with `@kubernetes/client-node`, an optional peer
 * dependency, which is loaded only here.
 *
 * The client only reads kubeconfig files, with their certificates, tokens, proxies and login programs
 * (docs/decisions/0067-pods.md). The service account is two files and an address, so a platform in a pod needs no client.
 */
import type * as Client from "@kubernetes/client-node"
import { PoolError, PoolUnavailable } from "@stint/pool/PoolError"
import * as Effect from "effect/Effect"
import { existsSync } from "node:fs"
import { readFile } from "node:fs/promises"
import { homedir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import type { ClusterAccess, Credentials } from "./KubernetesHttp.ts"
import type { KubernetesSettings } from "./KubernetesSettings.ts"

const unavailable = (problem: string, hint: string) => new PoolError({ reason: new PoolUnavailable({ problem, hint }) })

const wordsOf = (cause: unknown): string => (cause instanceof Error ? cause.message : String(cause)).replace(/\.$/, "")

/** The login's environment, apart from kubeconfig files. */
export interface Surroundings {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly home: string
  /** Where Kubernetes mounts the token and the certificate of a pod's service account. */
  readonly serviceAccount: string
}

const ownSurroundings: Surroundings = {
  env: process.env,
  home: homedir(),
  serviceAccount: "/var/run/secrets/kubernetes.io/serviceaccount"
}

/**
 * The access of the platform's own pod. Undefined outside a cluster, or if a kubeconfig exists, which takes precedence as in
 * the client. https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/#directly-accessing-the-rest-api
 */
const ofOwnPod = ({ env, home, serviceAccount }: Surroundings): ClusterAccess | undefined => {
  const { KUBECONFIG = "", KUBERNETES_SERVICE_HOST: host = "", KUBERNETES_SERVICE_PORT: port = "443" } = env
  const token = join(serviceAccount, "token")
  if (host === "" || KUBECONFIG !== "" || existsSync(join(home, ".kube", "config")) || !existsSync(token)) return undefined
  return {
    server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    // Read for each request, because the node replaces the token before it expires.
    credentials: async () => ({
      headers: { authorization: `Bearer ${(await readFile(token, "utf8")).trim()}` },
      ca: await readFile(join(serviceAccount, "ca.crt"))
    })
  }
}

/** Finds the cluster. `load` loads the client's module; tests of a missing client replace it. */
export const login = Effect.fnUntraced(function*(
  { context, kubeconfig }: KubernetesSettings,
  load: () => Promise<Pick<typeof Client, "KubeConfig">> = () => import("@kubernetes/client-node"),
  surroundings: Surroundings = ownSurroundings
): Effect.fn.Return<ClusterAccess, PoolError> {
  const own = kubeconfig === undefined && context === undefined ? ofOwnPod(surroundings) : undefined
  if (own !== undefined) return own
  const { KubeConfig } = yield* Effect.tryPromise({
    try: load,
    catch: (cause) =>
      unavailable(
        `the Kubernetes client cannot be loaded (${wordsOf(cause)})`,
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
