/**
 * A cluster of `@ngrok/webernetes`, a port of Kubernetes' scheduler, kubelet and controllers, behind an HTTP server, so that the pool can
 * use it like any API server. Its containers run real processes.
 *
 * The library has no logs of pods, so the server keeps what the processes print. It ignores requests, limits, node selectors and security
 * contexts.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { constants, tmpdir } from "node:os"
import { join } from "node:path"

interface Context {
  readonly argv: ReadonlyArray<string>
  readonly env: unknown
  readonly pod: { readonly config?: unknown }
  readonly waitUntilKilled: () => Promise<number>
}

interface PodObject {
  readonly metadata: { readonly name: string; readonly resourceVersion?: string }
  readonly spec: {
    readonly containers: ReadonlyArray<
      { readonly args?: ReadonlyArray<string>; readonly env: ReadonlyArray<{ readonly name: string; readonly value: string }> }
    >
  }
  readonly status?: { readonly phase?: string }
}

/** The part of the library that is used, whose own declarations cannot be resolved. */
interface Library {
  readonly BaseImage: new() => object
  readonly Cluster: new() => {
    readonly init: () => Promise<void>
    readonly close: () => Promise<void>
    readonly registerImage: (image: unknown) => void
    readonly kubeConfig: unknown
    readonly apply: (resources: ReadonlyArray<unknown>) => Promise<unknown>
    readonly api: {
      readonly corev1: {
        readonly createNamespacedPod: (request: { namespace: string; body: unknown }) => Promise<PodObject>
        readonly listNamespacedPod: (request: { namespace: string; labelSelector?: string }) => Promise<
          { readonly metadata: { readonly resourceVersion: string }; readonly items: ReadonlyArray<PodObject> }
        >
        readonly readNamespacedPod: (request: { namespace: string; name: string }) => Promise<PodObject>
        readonly deleteNamespacedPod: (
          request: { namespace: string; name: string; gracePeriodSeconds: number }
        ) => Promise<PodObject>
      }
    }
  }
  readonly Watch: new(config: unknown) => {
    readonly watch: (
      path: string,
      query: Readonly<Record<string, string>>,
      onEvent: (type: string, object: PodObject) => void,
      onEnd: (error: unknown) => void
    ) => Promise<AbortController>
  }
}

const loaded: Library | string = await import("@ngrok/webernetes").then(
  (library) => library as unknown as Library,
  (error: unknown) => String(error).split("\n")[0] ?? "it cannot be loaded"
)

/** Why no cluster can run here; undefined if one can. */
export const missing: string | undefined = typeof loaded === "string" ? loaded : undefined

const NAMESPACE = "default"

/** https://kubernetes.io/docs/reference/using-api/api-concepts/#410-gone-responses */
const EXPIRED = { kind: "Status", code: 410, reason: "Expired", message: "too old resource version" }

class PodLog {
  readonly lines: Array<string> = []
  readonly following = new Set<ServerResponse>()
  isOver = false
  #nanos = 0

  print(text: string): void {
    const line = `2026-11-23T10:00:00.${String(++this.#nanos).padStart(9, "0")}Z ${text}\n`
    this.lines.push(line)
    for (const response of this.following) response.write(line)
  }

  end(): void {
    this.isOver = true
    for (const response of this.following) response.end()
  }
}

/** Starts a cluster with the image `scripted:1`, which runs `node` with the pod's arguments. */
export const startCluster = async () => {
  if (typeof loaded === "string") throw new Error(loaded)
  const { BaseImage, Cluster, Watch } = loaded
  const cluster = new Cluster()
  const logs = new Map<string, PodLog>()
  const specs = new Map<string, PodObject>()
  const children = new Set<ChildProcess>()

  class Scripted extends BaseImage {
    static readonly imageName = "scripted"
    static readonly imageVersion = "1"
    readonly defaultCommand = []
    async exec(context: Context, argv: ReadonlyArray<string>): Promise<number> {
      const name = argv.at(-1) ?? ""
      const log = logs.get(name)
      const env = specs.get(name)?.spec.containers[0]?.env ?? []
      const child = spawn(process.execPath, argv.slice(0, -1), {
        // The kubelet reads "$$" as "$"; the library expands nothing.
        env: Object.fromEntries(env.map(({ name, value }) => [name, value.replaceAll("$$", () => "$")])),
        stdio: ["ignore", "pipe", "ignore"]
      })
      children.add(child)
      let open = ""
      child.stdout.setEncoding("utf8").on("data", (text: string) => {
        const lines = (open + text).split("\n")
        open = lines.pop() ?? ""
        for (const line of lines) log?.print(line)
      })
      const ended = new Promise<number>((done) =>
        child.once("close", (code, signal) => {
          children.delete(child)
          log?.end()
          done(signal === null ? code ?? 0 : 128 + constants.signals[signal])
        })
      )
      void context.waitUntilKilled().then((code) => child.kill(code === 137 ? "SIGKILL" : "SIGTERM"))
      return await ended
    }
  }
  cluster.registerImage(Scripted)
  await cluster.init()
  const { corev1 } = cluster.api

  const answer = async (method: string, url: string, body: string, response: ServerResponse): Promise<void> => {
    const { pathname, searchParams } = new URL(url, "http://api")
    const json = (value: unknown, status = 200): void => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value))
    }
    const [, name, log] = /^\/api\/v1\/namespaces\/default\/pods(?:\/([^/]+)(\/log)?)?$/.exec(pathname) ?? []
    const labelSelector = searchParams.get("labelSelector") ?? ""
    if (method === "POST") {
      const pod: PodObject = JSON.parse(body)
      logs.set(pod.metadata.name, new PodLog())
      specs.set(pod.metadata.name, pod)
      // The last argument names the pod.
      const containers = pod.spec.containers.map((one) => ({ ...one, args: [...(one.args ?? []), pod.metadata.name] }))
      return json(
        await corev1.createNamespacedPod({ namespace: NAMESPACE, body: { ...pod, spec: { ...pod.spec, containers } } }),
        201
      )
    }
    if (name === undefined && searchParams.get("watch") === "true") {
      response.writeHead(200).flushHeaders()
      const aborted = await new Watch(cluster.kubeConfig).watch(
        pathname,
        { labelSelector, resourceVersion: searchParams.get("resourceVersion") ?? "" },
        (type, object) => response.write(`${JSON.stringify({ type, object })}\n`),
        // When a watch's version is no longer stored, the library ends the watch without an event. An API server sends this event.
        (error) => response.end(error === null ? "" : `${JSON.stringify({ type: "ERROR", object: EXPIRED })}\n`)
      )
      response.on("close", () => aborted.abort())
      return
    }
    if (name === undefined) return json(await corev1.listNamespacedPod({ namespace: NAMESPACE, labelSelector }))
    if (method === "DELETE") {
      const { gracePeriodSeconds }: { readonly gracePeriodSeconds: number } = JSON.parse(body)
      return json(await corev1.deleteNamespacedPod({ namespace: NAMESPACE, name, gracePeriodSeconds }))
    }
    const kept = logs.get(name)
    if (log === undefined || kept === undefined) return json(await corev1.readNamespacedPod({ namespace: NAMESPACE, name }))
    response.writeHead(200).flushHeaders()
    for (const line of kept.lines) response.write(line)
    if (searchParams.get("follow") === "true" && !kept.isOver) kept.following.add(response)
    else response.end()
  }

  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      answer(`${request.method}`, request.url ?? "", Buffer.concat(chunks).toString(), response).catch((error: unknown) => {
        const code = typeof error === "object" && error !== null && "code" in error && typeof error.code === "number"
          ? error.code
          : 500
        if (!response.headersSent) response.writeHead(code, { "content-type": "application/json" })
        response.end(JSON.stringify({ kind: "Status", code, message: String(error) }))
      })
    })
  })
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening))
  const folder = mkdtempSync(join(tmpdir(), "stint-webernetes-"))
  const kubeconfig = join(folder, "kubeconfig.json")
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      clusters: [{ name: "c", cluster: { server: address, "insecure-skip-tls-verify": true } }],
      users: [{ name: "u", user: {} }],
      contexts: [{ name: "test", context: { cluster: "c", user: "u" } }],
      "current-context": "test"
    })
  )
  return {
    folder,
    kubeconfig,
    namespace: NAMESPACE,
    pods: async () => (await corev1.listNamespacedPod({ namespace: NAMESPACE })).items,
    close: async () => {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
      await cluster.close()
      // The library tells a container of one signal only, so a program that ignores SIGTERM would remain.
      for (const child of children) child.kill("SIGKILL")
      rmSync(folder, { recursive: true, force: true })
    }
  }
}
