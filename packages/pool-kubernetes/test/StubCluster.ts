/**
 * A stub of a Kubernetes API server, written from the public documentation, on a real loopback socket. Tests act as its
 * kubelet, or it runs the program of `args` as a process (`runs`).
 *
 * | answer | documentation |
 * |---|---|
 * | list, pages, 410 of an old version, bookmarks | https://kubernetes.io/docs/reference/using-api/api-concepts/ |
 * | Status object of an error | https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/ |
 * | 403 of a quota | https://kubernetes.io/docs/concepts/policy/resource-quotas/ |
 * | deletion in steps, grace period | https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination |
 * | `DisruptionTarget` | https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions |
 * | `$(NAME)` and `$$` in variables and arguments | https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/ |
 * | phases, `PodScheduled`, container states | https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/ |
 * | log with timestamps and sinceTime | https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/ |
 */
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer, type Server, type ServerResponse } from "node:http"
import type { AddressInfo, Socket } from "node:net"
import { constants, tmpdir } from "node:os"
import { join } from "node:path"

interface Body {
  readonly metadata: { readonly name: string; readonly labels: Readonly<Record<string, string>>; readonly annotations: unknown }
  readonly spec: {
    readonly terminationGracePeriodSeconds: number
    readonly containers: ReadonlyArray<{
      readonly args?: ReadonlyArray<string>
      readonly env: ReadonlyArray<{ readonly name: string; readonly value: string }>
    }>
  } & Readonly<Record<string, unknown>>
}

type Status = Readonly<Record<string, unknown>>

/** The status of a pod whose container has this state. */
export const containerStatus = (phase: string, state: Readonly<Record<string, unknown>>): Status => ({
  phase,
  containerStatuses: [{ name: "worker", state }]
})

export const running: Status = containerStatus("Running", { running: { startedAt: "2026-11-23T10:00:00Z" } })

/** An ended container, as the kubelet reports it. */
export const terminated = (exitCode: number, reason = exitCode === 0 ? "Completed" : "Error"): Status =>
  containerStatus(exitCode === 0 ? "Succeeded" : "Failed", { terminated: { exitCode, reason } })

/** Replaces `$(NAME)` and `$$` in variables and arguments, as Kubernetes does. */
const expanded = (text: string, variables: Readonly<Record<string, string>>): string =>
  text.replaceAll(/\$\$|\$\(([^)]*)\)/g, (whole, name: string | undefined) => name === undefined ? "$" : variables[name] ?? whole)

/** The variables that a container's program sees. A variable can contain those before it. */
export const variablesIn = (env: Body["spec"]["containers"][number]["env"]): Record<string, string> => {
  const variables: Record<string, string> = {}
  for (const { name, value } of env) variables[name] = expanded(value, variables)
  return variables
}

/** The arguments that a container's program sees. */
export const argsIn = ({ args = [], env }: Body["spec"]["containers"][number]): ReadonlyArray<string> =>
  args.map((one) => expanded(one, variablesIn(env)))

export class StubPod {
  readonly body: Body
  status: Status = { phase: "Pending" }
  deletionTimestamp: string | undefined
  /** The grace periods of its deletions. */
  readonly deletions: Array<number> = []
  /** Lines with their times. */
  readonly output: Array<string> = []
  readonly following = new Set<ServerResponse>()
  process: ChildProcess | undefined
  #killing: NodeJS.Timeout | undefined

  constructor(body: Body) {
    this.body = body
  }

  get isOver(): boolean {
    return this.status["phase"] === "Failed" || this.status["phase"] === "Succeeded"
  }

  print(time: string, text: string): void {
    this.output.push(`${time} ${text}\n`)
    for (const response of this.following) response.write(`${time} ${text}\n`)
  }

  endOutput(): void {
    for (const response of this.following) response.end()
    this.following.clear()
  }

  /** SIGTERM, and SIGKILL after the grace period. */
  stop(graceSeconds: number): void {
    this.process?.kill("SIGTERM")
    clearTimeout(this.#killing)
    this.#killing = setTimeout(() => this.process?.kill("SIGKILL"), graceSeconds * 1_000)
    this.#killing.unref()
  }
}

export interface Refusal {
  readonly code: number
  readonly reason: string
  readonly message: string
}

export class StubCluster {
  readonly folder = mkdtempSync(join(tmpdir(), "stint-kubernetes-"))
  readonly kubeconfig = join(this.folder, "kubeconfig.json")
  readonly pods = new Map<string, StubPod>()
  /** All pods that were created. */
  readonly created: Array<StubPod> = []
  /** `METHOD path?query` of each request. */
  readonly requests: Array<string> = []
  /** Responses that replace the next ones to requests with this method. */
  readonly refusals = new Map<string, Array<Refusal>>()
  /** The number of deletions that succeed without an effect, as when the API server stops in between. */
  lostDeletions = 0
  /** Whether the next pod is created without a response. */
  losesAnswer = false
  /** Whether each watch ends at once, as behind a broken proxy. */
  endsWatches = false
  /** Whether the kubelet runs the program of `args` as a process. */
  runs = false
  /** The oldest version from which a watch can start. */
  oldest = 0
  #version = 100
  #nanos = 0
  readonly #events: Array<{ readonly version: number; readonly line: string }> = []
  readonly #watches = new Set<ServerResponse>()
  readonly #sockets = new Set<Socket>()
  #server: Server | undefined
  #port = 0

  /** Starts to listen, even after {@link vanish}. */
  async appear(): Promise<void> {
    const server = createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => this.#answer(`${request.method}`, request.url ?? "", Buffer.concat(chunks).toString(), response))
    })
    server.on("connection", (socket) => {
      this.#sockets.add(socket)
      socket.once("close", () => this.#sockets.delete(socket))
    })
    this.#server = server
    await new Promise<void>((listening) => server.listen(this.#port, "127.0.0.1", listening))
    this.#port = (server.address() as AddressInfo).port
    writeFileSync(
      this.kubeconfig,
      JSON.stringify({
        clusters: [{ name: "c", cluster: { server: `http://127.0.0.1:${this.#port}`, "insecure-skip-tls-verify": true } }],
        users: [{ name: "u", user: { token: "the-token" } }],
        contexts: [{ name: "test", context: { cluster: "c", user: "u" } }],
        "current-context": "test"
      })
    )
  }

  /** Closes all connections; the pods continue. */
  async vanish(): Promise<void> {
    const server = this.#server
    const closed = new Promise<void>((done) => server === undefined ? done() : server.close(() => done()))
    for (const socket of this.#sockets) socket.destroy()
    this.#watches.clear()
    await closed
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { process } of this.pods.values()) process?.kill("SIGKILL")
    await this.vanish()
    rmSync(this.folder, { recursive: true, force: true })
  }

  /** The only pod. */
  get only(): StubPod {
    const [pod, ...others] = this.pods.values()
    if (pod === undefined || others.length > 0) throw new Error(`there are ${this.pods.size} pods`)
    return pod
  }

  /** Sends a line to all watches. */
  write(line: string): void {
    for (const response of this.#watches) response.write(`${line}\n`)
  }

  /** Ends all watches, as an API server does from time to time. */
  closeWatches(): void {
    for (const response of this.#watches) response.end()
    this.#watches.clear()
  }

  /** Changes a pod's status, as its kubelet does. `isSilent`: no watch receives the event. */
  set(pod: StubPod, status: Status, isSilent = false): void {
    pod.status = status
    if (pod.isOver && pod.deletionTimestamp !== undefined) return this.removed(pod)
    if (pod.isOver) pod.endOutput()
    this.#emit("MODIFIED", pod, isSilent)
  }

  /** Removes the object, as the API server does when the kubelet has confirmed the end. */
  removed(pod: StubPod, isSilent = false): void {
    this.pods.delete(pod.body.metadata.name)
    this.#emit("DELETED", pod, isSilent)
    pod.endOutput()
  }

  /** Another program deletes the pod. */
  delete(pod: StubPod, graceSeconds = pod.body.spec.terminationGracePeriodSeconds): void {
    pod.deletions.push(graceSeconds)
    pod.deletionTimestamp ??= "2026-11-23T10:00:00Z"
    // Without a running container, the API server removes the object at once.
    if (pod.isOver || pod.status["phase"] === "Pending") return this.removed(pod)
    this.#emit("MODIFIED", pod)
    pod.stop(graceSeconds)
    if (pod.process === undefined && graceSeconds <= 1) setImmediate(() => this.set(pod, terminated(137)))
  }

  /** Adds a pod, as if a platform had created it. */
  add(body: Body): StubPod {
    const pod = new StubPod(body)
    this.pods.set(body.metadata.name, pod)
    this.created.push(pod)
    this.#emit("ADDED", pod)
    return pod
  }

  refuse(method: string, ...refusals: ReadonlyArray<Refusal>): void {
    this.refusals.set(method, [...(this.refusals.get(method) ?? []), ...refusals])
  }

  #objectOf(pod: StubPod, version: number) {
    const { body, deletionTimestamp, status } = pod
    const metadata = {
      ...body.metadata,
      resourceVersion: String(version),
      ...(deletionTimestamp === undefined
        ? {}
        : { deletionTimestamp, deletionGracePeriodSeconds: Math.min(...pod.deletions, 300) })
    }
    return { apiVersion: "v1", kind: "Pod", metadata, spec: body.spec, status }
  }

  #emit(type: string, pod: StubPod, isSilent = false): void {
    const version = ++this.#version
    if (isSilent) return
    const line = `${JSON.stringify({ type, object: this.#objectOf(pod, version) })}\n`
    this.#events.push({ version, line })
    for (const response of this.#watches) response.write(line)
  }

  #run(pod: StubPod): void {
    const [container] = pod.body.spec.containers
    if (container === undefined) throw new Error("the pod has no container")
    const child = spawn(process.execPath, argsIn(container), {
      env: variablesIn(container.env),
      stdio: ["ignore", "pipe", "ignore"]
    })
    pod.process = child
    let open = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      const lines = (open + text).split("\n")
      open = lines.pop() ?? ""
      for (const line of lines) pod.print(`2026-11-23T10:00:00.${String(++this.#nanos).padStart(9, "0")}Z`, line)
    })
    child.once("close", (code, signal) => {
      // A program that a signal ended has the exit code 128 + its number.
      this.set(pod, terminated(signal === null ? code ?? 0 : 128 + constants.signals[signal]))
    })
    this.set(pod, running)
  }

  #answer(method: string, url: string, body: string, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(url, "http://api")
    this.requests.push(`${method} ${url}`)
    const refuse = ({ code, message, reason }: Refusal): void => {
      response.writeHead(code, { "content-type": "application/json" })
      response.end(JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message }))
    }
    const json = (value: unknown, status = 200): void => {
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(value))
    }
    const refusal = this.refusals.get(method)?.shift()
    if (refusal !== undefined) return refuse(refusal)
    const [, name, log] = /^\/api\/v1\/namespaces\/jobs\/pods(?:\/([^/]+)(\/log)?)?$/.exec(pathname) ?? []
    if (name === undefined && method === "POST") {
      const parsed: Body = JSON.parse(body)
      if (this.pods.has(parsed.metadata.name)) {
        const message = `pods "${parsed.metadata.name}" already exists`
        return refuse({ code: 409, reason: "AlreadyExists", message })
      }
      const pod = this.add(parsed)
      if (this.losesAnswer) {
        this.losesAnswer = false
        return void response.destroy()
      }
      json(this.#objectOf(pod, this.#version), 201)
      if (this.runs && JSON.stringify(parsed.spec).includes("no-such-image")) {
        return this.set(
          pod,
          containerStatus("Pending", { waiting: { reason: "ImagePullBackOff", message: "Back-off pulling image" } })
        )
      }
      if (this.runs) this.#run(pod)
      return
    }
    if (name === undefined && searchParams.get("watch") === "true") {
      return this.#watch(Number(searchParams.get("resourceVersion")), response)
    }
    if (name === undefined) {
      const [label = "", value] = searchParams.get("labelSelector")?.split("=") ?? []
      const items = [...this.pods.values()].filter((pod) => pod.body.metadata.labels[label] === value)
      return json({
        kind: "PodList",
        metadata: { resourceVersion: String(this.#version) },
        items: items.map((pod) => this.#objectOf(pod, this.#version))
      })
    }
    const pod = this.pods.get(name)
    if (pod === undefined) return refuse({ code: 404, reason: "NotFound", message: `pods "${name}" not found` })
    if (method === "DELETE") {
      if (this.lostDeletions > 0) {
        this.lostDeletions -= 1
        return json(this.#objectOf(pod, this.#version))
      }
      const { gracePeriodSeconds }: { readonly gracePeriodSeconds: number } = JSON.parse(body)
      this.delete(pod, gracePeriodSeconds)
      return json(this.#objectOf(pod, this.#version))
    }
    if (log === undefined) return json(this.#objectOf(pod, this.#version))
    if (pod.status["phase"] === "Pending") {
      const message = `container "worker" in pod "${name}" is waiting to start`
      return refuse({ code: 400, reason: "BadRequest", message })
    }
    // sinceTime has the precision of a second.
    const since = searchParams.get("sinceTime")?.slice(0, 19) ?? ""
    response.writeHead(200).flushHeaders()
    for (const line of pod.output) if (line.slice(0, 19) >= since) response.write(line)
    if (searchParams.get("follow") === "true" && !pod.isOver) pod.following.add(response)
    else response.end()
  }

  #watch(version: number, response: ServerResponse): void {
    response.writeHead(200, { "content-type": "application/json" }).flushHeaders()
    if (version < this.oldest) {
      const status = { kind: "Status", code: 410, reason: "Expired", message: `too old resource version: ${version}` }
      return void response.end(`${JSON.stringify({ type: "ERROR", object: status })}\n`)
    }
    if (this.endsWatches) return void response.end()
    for (const event of this.#events) if (event.version > version) response.write(event.line)
    this.#watches.add(response)
    response.on("close", () => this.#watches.delete(response))
  }
}
