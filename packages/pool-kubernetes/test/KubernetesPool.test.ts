import { assert, describe, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import type { WorkerLine } from "@stint/pool/WorkerLog"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import { mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { login } from "../src/ClusterLogin.ts"
import { argsIn, containerStatus, running, type StubPod, terminated, variablesIn } from "./StubCluster.ts"
import { GREETING, IMAGE, until, variablesOf, world } from "./TestWorld.ts"

/** A pool with a worker whose pod runs. */
const withWorker = Effect.gen(function*() {
  const tested = yield* world
  const pool = yield* tested.pool()
  const starting = yield* Effect.forkScoped(tested.start(pool))
  const pod = yield* until("the pod", () => tested.cluster.created[0])
  tested.cluster.set(pod, running)
  const handle = yield* Fiber.join(starting)
  return { ...tested, handle, pod, pool, next: tested.pool }
})

/** A start that waits, with its pod. */
const withStart = Effect.fnUntraced(function*(pods?: Parameters<Effect.Success<typeof world>["pool"]>[0]) {
  const tested = yield* world
  const pool = yield* tested.pool(pods)
  const starting = yield* Effect.forkScoped(tested.startError(pool))
  const pod = yield* until("the pod", () => tested.cluster.created[0])
  return { ...tested, pod, starting }
})

const conditions = (...all: ReadonlyArray<Readonly<Record<string, string>>>) => ({ conditions: all })

describe("the pod", () => {
  it.live("passes the restricted Pod Security Standard and contains the endpoint's limits, volumes and placement", () =>
    Effect.gen(function*() {
      const { cluster, pool, start } = yield* world
      const tested = yield* pool({
        nodeSelector: { accelerator: "h200" },
        tolerations: [{ key: "gpu", operator: "Exists", effect: "NoSchedule" }],
        imagePullSecrets: ["registry"],
        priorityClassName: "batch",
        requests: { cpu: "500m" },
        graceSeconds: 30
      })
      yield* Effect.forkScoped(start(tested, {
        command: ["serve"],
        cpus: 2.5,
        memoryBytes: 2 ** 31,
        gpus: 1,
        user: "1000:2000",
        volumes: [{ source: "shared" }, { source: "models", target: "/models", readOnly: true }]
      }))
      const { body } = yield* until("the pod", () => cluster.created[0])
      const { containers, ...spec } = body.spec
      assert.deepStrictEqual(spec, {
        restartPolicy: "Never",
        terminationGracePeriodSeconds: 30,
        automountServiceAccountToken: false,
        enableServiceLinks: false,
        nodeSelector: { accelerator: "h200" },
        tolerations: [{ key: "gpu", operator: "Exists", effect: "NoSchedule" }],
        priorityClassName: "batch",
        imagePullSecrets: [{ name: "registry" }],
        securityContext: {
          runAsNonRoot: true,
          seccompProfile: { type: "RuntimeDefault" },
          runAsUser: 1_000,
          runAsGroup: 2_000,
          fsGroup: 2_000
        },
        volumes: [
          { name: "tmp", emptyDir: {} },
          { name: "claim-0", persistentVolumeClaim: { claimName: "shared" } },
          { name: "claim-1", persistentVolumeClaim: { claimName: "models" } }
        ]
      })
      const { env = [], ...container } = { ...containers[0] }
      assert.deepStrictEqual<unknown>(container, {
        name: "worker",
        image: IMAGE,
        imagePullPolicy: "IfNotPresent",
        args: ["serve"],
        resources: {
          limits: { cpu: "2500m", memory: "2147483648", "nvidia.com/gpu": "1" },
          requests: { cpu: "500m", memory: "2147483648", "nvidia.com/gpu": "1" }
        },
        securityContext: { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ["ALL"] } },
        volumeMounts: [
          { name: "tmp", mountPath: "/tmp" },
          { name: "claim-0", mountPath: "/platform-volume", readOnly: false },
          { name: "claim-0", mountPath: "/runpod-volume", readOnly: false },
          { name: "claim-1", mountPath: "/models", readOnly: true }
        ]
      })
      const variables = variablesIn(env)
      assert.match(variables["RUNPOD_WEBHOOK_GET_JOB"] ?? "", /^http:\/\/stint\.jobs\.svc:4600\//)
      assert.deepStrictEqual(body.metadata, {
        name: "stint-w-1",
        labels: { "app.kubernetes.io/managed-by": "stint", "stint/platform": "tested", "stint/endpoint": "tested" },
        annotations: { "stint/worker": "w-1", "stint/endpoint": "tested" }
      })
    }))

  it.live("requires the labels of its endpoint from its node, in addition to the operator's node selector", () =>
    Effect.gen(function*() {
      const { cluster, pool, start } = yield* world
      const tested = yield* pool({ nodeSelector: { accelerator: "h200" } })
      yield* Effect.forkScoped(start(tested, {}, { labels: { gpu: "a100", "example.com/zone": "eu" } }))
      const { body } = yield* until("the pod", () => cluster.created[0])
      assert.deepInclude(body.spec, {
        nodeSelector: { accelerator: "h200" },
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [{
                matchExpressions: [
                  { key: "gpu", operator: "In", values: ["a100"] },
                  { key: "example.com/zone", operator: "In", values: ["eu"] }
                ]
              }]
            }
          }
        }
      })
    }))

  it.live("passes variables and arguments on unchanged, although Kubernetes replaces $(NAME) and $$ in them", () =>
    Effect.gen(function*() {
      const { cluster, pool, start } = yield* world
      const command = ["sh", "-c", "echo $(GREETING) $$ $$(RUNPOD_AI_API_KEY) $HOME 100$"] as const
      yield* Effect.forkScoped(start(yield* pool(), { command }))
      const { body } = yield* until("the pod", () => cluster.created[0])
      const [container] = body.spec.containers
      if (container === undefined) throw new Error("the pod has no container")
      assert.strictEqual(variablesIn(container.env)["GREETING"], GREETING)
      assert.deepStrictEqual(argsIn(container), command)
    }))

  const refusals: ReadonlyArray<readonly [Parameters<Effect.Success<typeof world>["start"]>[1], RegExp]> = [
    [{ pids: 100 }, /pids cannot be set for a pod\. Remove it/],
    [{ network: "host" }, /the network "host" is one of a container engine\. Remove it, and limit/],
    [{ gpus: "all" }, /a pod needs a number of GPUs, not "all"\. Set its gpus/],
    [{ user: "0:1000" }, /the user "0:1000" is root\. Set it to another number/],
    [{ user: "nobody" }, /the user "nobody" is not a number\. Set it to numbers/],
    [{ volumes: [{ source: "/srv/data" }] }, /^VolumeMissing: .*PersistentVolumeClaim\. Name a claim/]
  ]
  it.live.each(refusals.map(([more, expected]) => ({ more, expected })))(
    "rejects a setting that a pod does not support, instead of ignoring it: $more",
    ({ expected, more }) =>
      Effect.gen(function*() {
        const { cluster, pool, startError } = yield* world
        assert.match(yield* startError(yield* pool(), more), expected)
        assert.deepStrictEqual(cluster.created, [])
      })
  )

  it.live("refuses a model on the platform's machine", () =>
    Effect.gen(function*() {
      const { pool, startError } = yield* world
      const model = { model: "org/name", home: "/models", snapshot: "hub/x" } as never
      assert.match(yield* startError(yield* pool(), {}, { model }), /^ModelMissing: .* mount a volume that contains the model\.$/)
    }))
})

describe("a start", () => {
  it.live("reports missing capacity with the scheduler's message when no node has room in time, and removes the pod", () =>
    Effect.gen(function*() {
      const { cluster, pod, starting } = yield* withStart({ unschedulableSeconds: 1 })
      const message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
      cluster.set(pod, {
        phase: "Pending",
        ...conditions({ type: "PodScheduled", status: "False", reason: "Unschedulable", message })
      })
      assert.strictEqual(
        yield* Fiber.join(starting),
        "NoCapacity: There is no capacity for another worker: no node has room for the pod stint-w-1 (0/3 nodes are available: 3 Insufficient nvidia.com/gpu)."
      )
      assert.strictEqual(cluster.pods.size, 0)
    }))

  it.live("continues when a node has room after all", () =>
    Effect.gen(function*() {
      const { cluster, pool, start } = yield* world
      const starting = yield* Effect.forkScoped(start(yield* pool({ unschedulableSeconds: 1 })))
      const pod = yield* until("the pod", () => cluster.created[0])
      const unschedulable = { type: "PodScheduled", status: "False", reason: "Unschedulable" }
      cluster.set(pod, { phase: "Pending", ...conditions(unschedulable) })
      cluster.set(pod, { phase: "Pending", ...conditions({ type: "PodScheduled", status: "True" }) })
      yield* Effect.sleep("1500 millis")
      cluster.set(pod, running)
      assert.strictEqual((yield* Fiber.join(starting)).id, "w-1")
    }))

  it.live("reports an exceeded quota as missing capacity", () =>
    Effect.gen(function*() {
      const { cluster, pool, startError } = yield* world
      const message = `pods "stint-w-1" is forbidden: exceeded quota: jobs, requested: pods=1, used: pods=10, limited: pods=10`
      cluster.refuse("POST", { code: 403, reason: "Forbidden", message })
      assert.strictEqual(yield* startError(yield* pool()), `NoCapacity: There is no capacity for another worker: ${message}.`)
    }))

  it.live("names the missing role when the API forbids pods", () =>
    Effect.gen(function*() {
      const { cluster, pool, startError } = yield* world
      const message = `pods is forbidden: User "stint" cannot create resource "pods" in API group "" in the namespace "limits"`
      cluster.refuse("POST", { code: 403, reason: "Forbidden", message })
      assert.match(yield* startError(yield* pool()), /^PoolUnavailable: .*needs a role in the namespace jobs with create, delete/)
    }))

  it.live("reports an invalid pod with the API's message, and does not retry", () =>
    Effect.gen(function*() {
      const { cluster, pool, startError } = yield* world
      cluster.refuse("POST", { code: 422, reason: "Invalid", message: `Pod "x" is invalid: spec.priorityClassName` })
      assert.match(yield* startError(yield* pool()), /^SpawnFailed: .*spec\.priorityClassName\. Correct endpoint tested/)
      assert.strictEqual(cluster.requests.filter((one) => one.startsWith("POST")).length, 1)
    }))

  it.live("refuses a pod with the same name that this start did not create", () =>
    Effect.gen(function*() {
      const { cluster, pool, startError } = yield* world
      cluster.refuse("POST", { code: 409, reason: "AlreadyExists", message: `pods "stint-w-1" already exists` })
      assert.match(yield* startError(yield* pool()), /^SpawnFailed: .*already exists/)
    }))

  it.live("creates one pod when the API was briefly overloaded", () =>
    Effect.gen(function*() {
      const { cluster, pool, start } = yield* world
      cluster.refuse("POST", { code: 429, reason: "TooManyRequests", message: "try later" })
      const starting = yield* Effect.forkScoped(start(yield* pool()))
      const pod = yield* until("the pod", () => cluster.created[0])
      cluster.set(pod, running)
      yield* Fiber.join(starting)
      assert.strictEqual(cluster.created.length, 1)
    }))

  it.live("creates the pod when its quota was changed by another start at the same time (409 Conflict)", () =>
    Effect.gen(function*() {
      const { cluster, pool, start } = yield* world
      const message = `Operation cannot be fulfilled on resourcequotas "jobs": the object has been modified`
      cluster.refuse("POST", ...[1, 2].map(() => ({ code: 409, reason: "Conflict", message })))
      const starting = yield* Effect.forkScoped(start(yield* pool()))
      const pod = yield* until("the pod", () => cluster.created[0])
      cluster.set(pod, running)
      assert.strictEqual((yield* Fiber.join(starting)).id, "w-1")
    }))

  it.live("uses the pod that an earlier attempt created when the response to that attempt was lost", () =>
    Effect.gen(function*() {
      const { cluster, pool, start } = yield* world
      cluster.losesAnswer = true
      const starting = yield* Effect.forkScoped(start(yield* pool()))
      const pod = yield* until("the pod", () => cluster.created[0])
      cluster.set(pod, running)
      assert.strictEqual((yield* Fiber.join(starting)).id, "w-1")
      assert.strictEqual(cluster.requests.filter((one) => one.startsWith("POST")).length, 2)
    }))

  it.live.each([
    `pods "stint-w-1" is forbidden: no PriorityClass with name batch was found`,
    `pods "stint-w-1" is forbidden: error looking up service account limits/worker: serviceaccount "worker" not found`,
    `pods "stint-w-1" is forbidden: violates PodSecurity "restricted:latest"`,
    `pods "stint-w-1" is forbidden: maximum cpu usage per Container is 1, but limit is 2`
  ])("names the endpoint when an admission check refuses its pod: %s", (message) =>
    Effect.gen(function*() {
      const { cluster, pool, startError } = yield* world
      cluster.refuse("POST", { code: 403, reason: "Forbidden", message })
      assert.match(yield* startError(yield* pool()), /^SpawnFailed: .*Correct endpoint tested, or its pods in STINT_KUBERNETES/)
    }))

  it.live("hides the worker's key and the endpoint's secrets in the API's message", () =>
    Effect.gen(function*() {
      const { cluster, pool, startError } = yield* world
      const message = `cannot be handled as a Pod: unexpected "stint_worker_0123456789", "hunter22"`
      cluster.refuse("POST", { code: 400, reason: "BadRequest", message })
      const error = yield* startError(yield* pool(), {}, { mask: (text) => text.replaceAll("hunter22", "[secret]") })
      assert.include(error, `cannot be handled as a Pod: unexpected "[the worker's key]", "[secret]"`)
    }))

  const failures: ReadonlyArray<readonly [StubPod["status"], RegExp]> = [
    [
      containerStatus("Pending", { waiting: { reason: "ImagePullBackOff", message: "Back-off pulling image" } }),
      /^SpawnFailed: .*ImagePullBackOff: Back-off pulling image\. Correct the image of endpoint tested, or add its credentials/
    ],
    [
      containerStatus("Pending", {
        waiting: { reason: "CreateContainerConfigError", message: "container has runAsNonRoot and image will run as root" }
      }),
      /^SpawnFailed: .*Set the user of endpoint tested, for example "1000:1000"/
    ],
    [
      containerStatus("Failed", { terminated: { exitCode: 128, reason: "StartError", message: "exec: \"serve\": not found" } }),
      /^SpawnFailed: .*StartError: exec: "serve": not found\. Correct the command/
    ],
    [
      { phase: "Failed", reason: "OutOfcpu", message: "Pod was rejected: Node didn't have enough resource: cpu" },
      /^NoCapacity: .*ended before its container ran \(OutOfcpu: Pod was rejected/
    ]
  ]
  it.live.each(failures.map(([status, expected]) => ({ status, expected })))(
    "fails with the cluster's message, and removes the pod: $expected",
    ({ expected, status }) =>
      Effect.gen(function*() {
        const { cluster, pod, starting } = yield* withStart()
        cluster.set(pod, status)
        assert.match(yield* Fiber.join(starting), expected)
        assert.strictEqual(cluster.pods.size, 0)
      })
  )

  it.live("names what the pod waits for when the start takes too long", () =>
    Effect.gen(function*() {
      const { cluster, pod, starting } = yield* withStart({ startSeconds: 1 })
      cluster.set(pod, containerStatus("Pending", { waiting: { reason: "ContainerCreating" } }))
      assert.match(yield* Fiber.join(starting), /^NoCapacity: .*did not run within 1 seconds \(ContainerCreating\)/)
    }))

  it.live("can be interrupted while it waits, and removes the pod", () =>
    Effect.gen(function*() {
      const { cluster, starting } = yield* withStart()
      yield* Fiber.interrupt(starting)
      assert.strictEqual(cluster.pods.size, 0)
    }))
})

describe("an exit", () => {
  const disrupted = (reason: string, message: string) => ({
    ...terminated(143),
    ...conditions({ type: "DisruptionTarget", status: "True", reason, message })
  })
  const exits: ReadonlyArray<readonly [StubPod["status"], Readonly<Record<string, unknown>>]> = [
    [terminated(3), { _tag: "Exited", code: 3 }],
    [terminated(137, "OOMKilled"), { _tag: "Killed", signal: "SIGKILL", outOfMemory: true }],
    [terminated(139), { _tag: "Killed", signal: "SIGSEGV", outOfMemory: false }],
    [
      { ...terminated(143), reason: "Evicted", message: "The node was low on resource: memory." },
      { _tag: "Lost", reason: "its pod stint-w-1 was evicted by its node (The node was low on resource: memory)." }
    ],
    [
      disrupted("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod"),
      {
        _tag: "Lost",
        reason:
          "its pod stint-w-1 was preempted by a pod with a higher priority (default-scheduler: preempting to accommodate a " +
          "higher priority pod)."
      }
    ],
    [
      disrupted("EvictionByEvictionAPI", "Eviction API: evicting"),
      { _tag: "Lost", reason: "its pod stint-w-1 was evicted, for example because its node is drained (Eviction API: evicting)." }
    ],
    [{ phase: "Failed", reason: "NodeLost" }, { _tag: "Lost", reason: "its pod stint-w-1 failed (NodeLost)." }]
  ]
  it.live.each(exits.map(([status, expected]) => ({ status, expected })))(
    "is reported with its cause, and the pod is removed when the exit has been processed: $expected",
    ({ expected, status }) =>
      Effect.gen(function*() {
        const { cluster, handle, next, pod } = yield* withWorker
        cluster.set(pod, status)
        assert.deepStrictEqual<unknown>(yield* handle.exit, { ...expected, log: [] })
        // A platform that is killed before that is followed by one that processes the exit.
        const { orphans } = yield* next()
        assert.deepStrictEqual(orphans.map(({ id, isRunning }) => [String(id), isRunning]), [["w-1", false]])
        yield* handle.forget ?? Effect.void
        assert.strictEqual(cluster.pods.size, 0)
      })
  )

  it.live("is that of a lost worker when its node does not respond, without a forced deletion", () =>
    Effect.gen(function*() {
      const { cluster, handle, pod } = yield* withWorker
      pod.deletionTimestamp = "2026-11-23T10:00:00Z"
      cluster.set(pod, {
        ...running,
        ...conditions({
          type: "DisruptionTarget",
          status: "True",
          reason: "DeletionByTaintManager",
          message: "Taint manager: deleting"
        })
      })
      pod.endOutput()
      const exit = yield* handle.exit
      assert.strictEqual(exit._tag === "Lost" && exit.reason.includes("not ready or has a taint"), true)
      assert.notInclude(pod.deletions, 0)
    }))

  it.live("is that of a lost worker when another program deleted its pod before the platform saw its end", () =>
    Effect.gen(function*() {
      const { cluster, handle, pod } = yield* withWorker
      cluster.removed(pod)
      assert.deepStrictEqual(yield* handle.exit, {
        _tag: "Lost",
        reason: "another program deleted its pod stint-w-1.",
        log: []
      })
    }))

  it.live("on request is the program's own, after a deletion with the endpoint's grace period", () =>
    Effect.gen(function*() {
      const { cluster, handle, pod } = yield* withWorker
      yield* handle.drain
      assert.deepStrictEqual(pod.deletions, [300])
      cluster.set(pod, terminated(0))
      assert.deepStrictEqual(yield* handle.exit, { _tag: "Exited", code: 0, log: [] })
    }))

  it.live("by a kill shortens the grace period of an earlier request", () =>
    Effect.gen(function*() {
      const { handle, pod } = yield* withWorker
      yield* handle.drain
      yield* handle.kill
      assert.deepStrictEqual(pod.deletions, [300, 1])
      assert.deepStrictEqual(yield* handle.exit, { _tag: "Killed", signal: "SIGKILL", outOfMemory: false, log: [] })
    }))
})

describe("a request to end", () => {
  it.live("that the API lost is repeated when it responds again", () =>
    Effect.gen(function*() {
      const { cluster, handle, pod } = yield* withWorker
      cluster.lostDeletions = 1
      yield* handle.kill
      assert.deepStrictEqual(pod.deletions, [])
      cluster.oldest = 1_000_000
      cluster.closeWatches()
      assert.strictEqual((yield* handle.exit)._tag, "Killed")
      assert.include(pod.deletions, 1)
    }))

  it.live("that shortens an earlier one is also repeated when the API has lost it", () =>
    Effect.gen(function*() {
      const { cluster, handle, pod } = yield* withWorker
      yield* handle.drain
      cluster.lostDeletions = 1
      yield* handle.kill
      assert.deepStrictEqual(pod.deletions, [300])
      cluster.oldest = 1_000_000
      cluster.closeWatches()
      assert.strictEqual((yield* handle.exit)._tag, "Killed")
      assert.include(pod.deletions, 1)
    }))

  it.live("that the API refused is in the log", () =>
    Effect.gen(function*() {
      const { cluster, handle, logged, outputs } = yield* withWorker
      const message = `User "stint" cannot delete resource "pods"`
      cluster.refuse("DELETE", { code: 403, reason: "Forbidden", message })
      yield* Effect.provide(handle.drain, outputs)
      assert.match(logged.join(), /The request to end pod stint-w-1 failed\. .*cannot delete resource "pods"/)
    }))
})

describe("changes", () => {
  it.live("are requested about once a second instead of without a pause, when each watch ends or expires at once", () =>
    Effect.gen(function*() {
      const { cluster } = yield* withWorker
      cluster.endsWatches = true
      cluster.closeWatches()
      const before = cluster.requests.length
      yield* Effect.sleep("1500 millis")
      cluster.oldest = 1_000_000
      yield* Effect.sleep("1500 millis")
      const count = cluster.requests.length - before
      assert.isTrue(count >= 2 && count < 12, `${count} requests in 3 seconds`)
    }))

  it.live("that do not have Kubernetes' format are reported without their content, which may be a secret", () =>
    Effect.gen(function*() {
      const { cluster, logged } = yield* withWorker
      cluster.write(`{"type":"MODIFIED","object":{"spec":{"env":[{"value":"hunter22"}]}}}`)
      yield* until(
        "the warning",
        () => logged.find((line) => line.includes("a watch contains an event that is not from Kubernetes"))
      )
      assert.notInclude(logged.join(), "hunter22")
    }))

  it.live("are seen after the server ended a watch, from the last version, without another list", () =>
    Effect.gen(function*() {
      const { cluster, handle, pod } = yield* withWorker
      cluster.closeWatches()
      cluster.set(pod, terminated(4))
      const exit = yield* handle.exit
      assert.strictEqual(exit._tag === "Exited" && exit.code, 4)
      assert.strictEqual(cluster.requests.filter((one) => /^GET .*limit=/.test(one)).length, 1)
    }))

  it.live("that no watch reported are found by a list when the version is too old (410 Gone)", () =>
    Effect.gen(function*() {
      const { cluster, handle, pod } = yield* withWorker
      cluster.oldest = 1_000_000
      cluster.removed(pod, true)
      cluster.closeWatches()
      assert.strictEqual((yield* handle.exit)._tag, "Lost")
    }))

  it.live("wait while the API does not respond: the worker counts as running, and one line of the log says so", () =>
    Effect.gen(function*() {
      const { cluster, handle, logged, pod } = yield* withWorker
      yield* Effect.promise(() => cluster.vanish())
      yield* until("the warning", () => logged.find((line) => line.includes("they count as running")))
      cluster.set(pod, terminated(5))
      const exit = yield* Effect.forkScoped(handle.exit)
      yield* Effect.promise(() => cluster.appear())
      const ended = yield* Fiber.join(exit)
      assert.strictEqual(ended._tag === "Exited" && ended.code, 5)
      assert.strictEqual(logged.filter((line) => line.includes("count as running")).length, 1)
    }))
})

describe("output", () => {
  it.live("is forwarded once, in order, across a connection that is lost within a second", () =>
    Effect.gen(function*() {
      const { cluster, handle, pod, texts } = yield* withWorker
      pod.print("2026-11-23T10:00:00.1Z", "a")
      pod.print("2026-11-23T10:00:00.25Z", "b")
      pod.print("2026-11-23T10:00:00.25Z", "c")
      yield* until("c", () => texts().includes("c") ? true : undefined)
      yield* Effect.promise(() => cluster.vanish())
      yield* Effect.promise(() => cluster.appear())
      pod.print("2026-11-23T10:00:00.25Z", "d")
      pod.print("2026-11-23T10:00:00.3Z", "e")
      cluster.set(pod, terminated(1))
      const exit = yield* handle.exit
      assert.deepStrictEqual(texts(), ["a", "b", "c", "d", "e"])
      assert.deepStrictEqual(exit.log, ["a", "b", "c", "d", "e"])
    }))
})

describe("a restarted platform", () => {
  const restart = Effect.fnUntraced(function*(status: StubPod["status"]) {
    const tested = yield* world
    const first = yield* Scope.make()
    const pool = yield* Scope.provide(tested.pool(), first)
    // Never closed, as if the platform had been killed.
    const starting = yield* Effect.forkScoped(Scope.provide(tested.start(pool), yield* Scope.make()))
    const pod = yield* until("the pod", () => tested.cluster.created[0])
    tested.cluster.set(pod, running)
    yield* Fiber.join(starting)
    pod.print("2026-11-23T10:00:00.1Z", "before")
    yield* until("the line", () => tested.texts().includes("before") ? true : undefined)
    yield* Scope.close(first, Exit.void)
    tested.cluster.set(pod, status)
    const lines: Array<WorkerLine> = []
    const again = yield* tested.pool({}, lines)
    const [orphan, ...others] = again.orphans
    if (orphan === undefined || others.length > 0) throw new Error(`there are ${again.orphans.length} orphans`)
    return { ...tested, orphan, pod, texts: () => lines.map(({ text }) => text) }
  })

  it.live("adopts the pods with its name: output, requests and exits work, and no line comes twice", () =>
    Effect.gen(function*() {
      const { cluster, orphan, outputs, pod, texts } = yield* restart(running)
      assert.deepStrictEqual([orphan.id, orphan.endpoint, orphan.isRunning], ["w-1", EndpointId.make("tested"), true] as never)
      const handle = yield* Effect.provide(orphan.adopt(variablesOf(orphan.id)), outputs)
      pod.print("2026-11-23T10:00:00.2Z", "after")
      yield* until("the line", () => texts().includes("after") ? true : undefined)
      yield* handle.drain
      cluster.set(pod, terminated(0))
      assert.strictEqual((yield* handle.exit)._tag, "Exited")
      assert.deepStrictEqual(texts(), ["after"])
    }))

  it.live("adopts a pod that had ended as lost, with its last lines", () =>
    Effect.gen(function*() {
      const { cluster, orphan, outputs } = yield* restart(terminated(1))
      assert.strictEqual(orphan.isRunning, false)
      const { exit, forget = Effect.void } = yield* Effect.provide(orphan.adopt(variablesOf(orphan.id)), outputs)
      const lost = yield* exit
      assert.strictEqual(lost._tag === "Lost" && lost.reason, "its pod had ended before the platform started.")
      assert.strictEqual(cluster.pods.size, 1)
      yield* forget
      assert.strictEqual(cluster.pods.size, 0)
    }))

  it.live("does not miss the end of a pod between its start and the adoption", () =>
    Effect.gen(function*() {
      const { cluster, orphan, outputs, pod } = yield* restart(running)
      yield* until("the watch", () => cluster.requests.filter((one) => one.includes("watch=true")).length > 1 ? true : undefined)
      cluster.removed(pod)
      const exit = yield* (yield* Effect.provide(orphan.adopt(variablesOf(orphan.id)), outputs)).exit
      assert.strictEqual(exit._tag, "Lost")
    }))

  it.live("leaves the pods of other platforms alone, and removes its own that have no worker", () =>
    Effect.gen(function*() {
      const { cluster, logged, pool } = yield* world
      const spec = { terminationGracePeriodSeconds: 1, containers: [] }
      cluster.add({ metadata: { name: "other", labels: { "stint/platform": "another" }, annotations: {} }, spec })
      cluster.add({ metadata: { name: "lost", labels: { "stint/platform": "tested" }, annotations: {} }, spec })
      yield* pool()
      yield* until("the removal", () => cluster.pods.has("lost") ? undefined : true)
      assert.deepStrictEqual([...cluster.pods.keys()], ["other"])
      assert.include(
        logged.join(),
        "Removing pod lost: it has this platform's label but belongs to none of its workers."
      )
    }))
})

describe("a pod with a worker's annotation and another name", () => {
  it.live("is a copy, and is removed instead of adopted", () =>
    Effect.gen(function*() {
      const { cluster, pool } = yield* world
      const spec = { terminationGracePeriodSeconds: 1, containers: [] }
      const annotations = { "stint/worker": "w-1", "stint/endpoint": "tested" }
      cluster.add({ metadata: { name: "copy", labels: { "stint/platform": "tested" }, annotations }, spec })
      assert.deepStrictEqual((yield* pool()).orphans, [])
      yield* until("the removal", () => cluster.pods.has("copy") ? undefined : true)
    }))
})

describe("the login", () => {
  it.live.each(["10.0.0.1:443", "localhost:6443", "ftp://cluster"])(
    "rejects the address %s, which is not an HTTP address",
    (server) =>
      Effect.gen(function*() {
        const { cluster, settings } = yield* world
        writeFileSync(cluster.kubeconfig, readFileSync(cluster.kubeconfig, "utf8").replace(/http:[^"]*/, server))
        const error = yield* Effect.flip(login(settings()))
        assert.match(error.message, /is not an https:\/\/ address.* Correct the file/)
      })
  )

  it.live("reports a token that a header cannot contain, without quoting it", () =>
    Effect.gen(function*() {
      const { cluster, pool } = yield* world
      writeFileSync(cluster.kubeconfig, readFileSync(cluster.kubeconfig, "utf8").replace("the-token", "hunter22\\nx"))
      const exit = yield* Effect.exit(Effect.timeout(pool(), "5 seconds"))
      assert.notInclude(JSON.stringify(exit), "hunter22")
      assert.isFalse(JSON.stringify(exit).includes("\"Die\""), JSON.stringify(exit))
    }))

  it.effect("names the command that installs the client when it is missing", () =>
    Effect.gen(function*() {
      const settings = { namespace: "jobs", platformUrl: "http://stint:4600" }
      const error = yield* Effect.flip(login(settings, () => Promise.reject(new Error("Cannot find package"))))
      assert.match(error.message, /Cannot find package\)\. Install it beside Stint: npm install @kubernetes\/client-node@2/)
    }))

  /** The service account, as a pod sees it. */
  const inPod = Effect.gen(function*() {
    const { cluster } = yield* world
    const serviceAccount = join(cluster.folder, "serviceaccount")
    mkdirSync(serviceAccount)
    writeFileSync(join(serviceAccount, "token"), "first\n")
    writeFileSync(join(serviceAccount, "ca.crt"), "the certificate")
    const env = { KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" }
    return { env, home: cluster.folder, serviceAccount }
  })
  const settings = { namespace: "jobs", platformUrl: "http://stint:4600" }
  const absent = () => Promise.reject(new Error("Cannot find package"))

  it.live("uses the service account of the platform's own pod without the client, and its current token", () =>
    Effect.gen(function*() {
      const surroundings = yield* inPod
      const { credentials, server } = yield* login(settings, absent, surroundings)
      assert.strictEqual(server, "https://10.96.0.1:443")
      const ca = Buffer.from("the certificate")
      assert.deepStrictEqual(yield* Effect.promise(credentials), { headers: { authorization: "Bearer first" }, ca })
      writeFileSync(join(surroundings.serviceAccount, "token"), "second\n")
      assert.deepStrictEqual(yield* Effect.promise(credentials), { headers: { authorization: "Bearer second" }, ca })
      const env = { ...surroundings.env, KUBERNETES_SERVICE_HOST: "fd00::1" }
      assert.strictEqual((yield* login(settings, absent, { ...surroundings, env })).server, "https://[fd00::1]:443")
    }))

  it.live("prefers a kubeconfig to the service account", () =>
    Effect.gen(function*() {
      const surroundings = yield* inPod
      const needsClient = (...args: Parameters<typeof login>) =>
        Effect.map(Effect.flip(login(...args)), ({ message }) => assert.match(message, /Cannot find package/))
      const env = { ...surroundings.env, KUBECONFIG: "/etc/kubeconfig" }
      yield* needsClient(settings, absent, { ...surroundings, env })
      yield* needsClient({ ...settings, kubeconfig: "/etc/kubeconfig" }, absent, surroundings)
      yield* needsClient({ ...settings, context: "production" }, absent, surroundings)
      yield* needsClient(settings, absent, { ...surroundings, env: {} })
      yield* needsClient(settings, absent, { ...surroundings, serviceAccount: "/none" })
      mkdirSync(join(surroundings.home, ".kube"))
      writeFileSync(join(surroundings.home, ".kube", "config"), "")
      yield* needsClient(settings, absent, surroundings)
    }))

  it.live("sends the token of the kubeconfig's user", () =>
    Effect.gen(function*() {
      const { cluster, settings } = yield* world
      const { credentials, server } = yield* login(settings())
      const { headers } = yield* Effect.promise(credentials)
      assert.deepStrictEqual<unknown>(headers, { Authorization: "Bearer the-token" })
      assert.match(server, /^http:\/\/127\.0\.0\.1:\d+$/)
      assert.isTrue(cluster.requests.length === 0)
    }))

  it.live("names the context that the kubeconfig lacks", () =>
    Effect.gen(function*() {
      const { settings } = yield* world
      const error = yield* Effect.flip(login({ ...settings(), context: "production" }))
      assert.match(error.message, /kubeconfig has no cluster for the context "production"\. Correct the file/)
    }))
})
