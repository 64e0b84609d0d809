/**
 * The platform's manifests for Kubernetes: accepted by the published schemas, and true to the platform that they run. No cluster has run them.
 */
import type { V1PodSpec, V1StatefulSet } from "@kubernetes/client-node"
import { RIGHTS, WORKER_LABELS } from "@stint/pool-kubernetes/ClusterRules"
import { KubernetesSettings } from "@stint/pool-kubernetes/KubernetesSettings"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { afterAll, describe, expect, it } from "vitest"
import { parse, parseAllDocuments } from "yaml"
import * as PlatformConfig from "../src/config/PlatformConfig.ts"
import { Environment, SETTING_NAMES } from "../src/config/SettingNames.ts"
import { type Installation, MIGRATIONS, PLATFORM } from "../src/kubernetes/Installation.ts"
import { manifestsOf } from "../src/kubernetes/Manifests.ts"
import { ingressOf, policiesOf } from "../src/kubernetes/Network.ts"
import {
  configMapOf,
  namespacesOf,
  roleBindingOf,
  roleOf,
  serviceAccountOf,
  settingsFileOf
} from "../src/kubernetes/PodsAccess.ts"
import { budgetOf, migrationOf, nodesServiceOf, serviceOf, statefulSetOf } from "../src/kubernetes/Workload.ts"
import { runCommand } from "./CommandInProcess.ts"
import { refusalsOf } from "./PublishedSchemas.ts"
import { at, document, entries } from "./VerbCalls.ts"

const nodes: Installation = {
  image: "registry.example.com/stint:1",
  namespace: "stint",
  workersNamespace: "stint-workers",
  store: { _tag: "Database", port: 5432, nodes: 3 },
  ingress: { host: "jobs.example.org", className: "nginx", tlsSecret: "stint-tls" },
  pods: { imagePullSecrets: ["registry"] },
  endpoints: { llm: { nodeSelector: { accelerator: "h200" } } }
}
const single: Installation = {
  image: "registry.example.com/stint:1",
  namespace: "stint",
  workersNamespace: "stint-workers",
  store: { _tag: "Volume", size: "20Gi" }
}
const BOTH = [{ which: "nodes with a database", installation: nodes }, { which: "one node with a volume", installation: single }]

const folder = mkdtempSync(join(tmpdir(), "stint-manifests-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const present = <A>(value: A | undefined): A => {
  if (value === undefined) throw new Error("it is missing")
  return value
}

const podOf = (set: V1StatefulSet): V1PodSpec => present(set.spec?.template.spec)

/** The pods of an installation. */
const podsOf = (installation: Installation): ReadonlyArray<V1PodSpec> => [
  podOf(statefulSetOf(installation)),
  present(migrationOf(installation).spec?.template.spec)
]

const nodeOf = (installation: Installation) => present(podOf(statefulSetOf(installation)).containers[0])

/** The variables of a node with this name. */
const environmentOf = (installation: Installation, name: string): Readonly<Record<string, string>> =>
  Object.fromEntries((nodeOf(installation).env ?? []).map(({ name: variable, value, valueFrom }) => {
    if (value !== undefined) return [variable, value]
    if (valueFrom?.fieldRef?.fieldPath === "metadata.name") return [variable, name]
    const key = present(valueFrom?.secretKeyRef?.key)
    return [variable, key === "STINT_DATABASE" ? "postgres://stint@db/stint" : Buffer.alloc(32, key).toString("base64")]
  }))

const dockerfile = readFileSync(resolve(import.meta.dirname, "../image/Dockerfile"), "utf8")

describe("the published schemas", () => {
  it.each(BOTH)("accept every object of $which", ({ installation }) => {
    const objects = manifestsOf(installation)
    expect(objects.length).toBeGreaterThan(10)
    expect(objects.flatMap(refusalsOf)).toEqual([])
  })

  const set = statefulSetOf(nodes)
  const container = nodeOf(nodes)
  /** Without the compiler, which would refuse most of these mistakes first. */
  const changed = (value: object | undefined, change: object): object => Object.assign({}, value, change)
  const withContainer = (change: object) => {
    const template = changed(set.spec?.template, { spec: changed(podOf(set), { containers: [changed(container, change)] }) })
    return changed(set, { spec: changed(set.spec, { template }) })
  }
  it.each([
    ["a misspelled member", withContainer({ livenesProbe: {} }), "livenesProbe is unknown"],
    ["a string instead of a number", withContainer({ ports: [{ containerPort: "4600" }] }), "containerPort is not a number"],
    ["a number instead of a string", withContainer({ env: [{ name: "PORT", value: 4600 }] }), "value is not a string"],
    ["an object instead of an array", withContainer({ args: { serve: true } }), "args is not an array"],
    ["a missing member", changed(set, { spec: { serviceName: "x" } }), "required"],
    ["a value outside the permitted ones", withContainer({ imagePullPolicy: "Sometimes" }), "imagePullPolicy"]
  ])("refuse %s", (_, object, problem) => {
    expect(refusalsOf(object).join("\n")).toContain(problem)
  })

  it("accept a name only where it stands for a reserved word", () => {
    const [policy] = policiesOf(nodes)
    expect(refusalsOf(policy)).toEqual(["NetworkPolicy.spec.ingress[0]._from is unknown"])
  })
})

describe("the nodes", () => {
  it.each(BOTH)("set only variables that the platform reads, and load as its settings: $which", async ({ installation }) => {
    const env = environmentOf(installation, "stint-1")
    const known: ReadonlyArray<string> = [...SETTING_NAMES, "POD_NAME"]
    expect(Object.keys(env).filter((name) => !known.includes(name))).toEqual([])
    const file = join(folder, "kubernetes.json")
    writeFileSync(file, settingsFileOf(installation))
    const mounts = nodeOf(installation).volumeMounts ?? []
    expect(mounts.map(({ mountPath }) => `${mountPath}/kubernetes.json`)).toContain(env["STINT_KUBERNETES"])
    const given = { ...env, STINT_KUBERNETES: file }
    const settings = await Effect.runPromise(PlatformConfig.load.pipe(
      Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env: given })),
      Effect.provideService(Environment, given)
    ))
    expect(settings).toMatchObject({ host: "0.0.0.0", port: 4600, dataDir: "/data/stint" })
    expect(settings.kubernetes).toEqual({
      namespace: "stint-workers",
      name: "stint-1.stint",
      platformUrl: "http://stint-1.stint-nodes.stint.svc:4600",
      ...(installation === nodes && { pods: nodes.pods, endpoints: nodes.endpoints })
    })
    const grace = Duration.toSeconds(settings.shutdownGrace)
    const leaving = present(nodeOf(installation).lifecycle?.preStop?.sleep?.seconds)
    expect(podOf(statefulSetOf(installation)).terminationGracePeriodSeconds).toBe(grace + leaving + 15)
  })

  it("are called by their workers at the names that the headless Service gives them, on the port that they listen on", () => {
    const { spec } = statefulSetOf(nodes)
    const { metadata, spec: service } = nodesServiceOf(nodes)
    expect(spec?.serviceName).toBe(metadata?.name)
    expect(service).toMatchObject({ clusterIP: "None", publishNotReadyAddresses: true, selector: PLATFORM })
    const port = present(nodeOf(nodes).ports?.[0])
    for (const { ports, selector } of [present(service), present(serviceOf(nodes).spec)]) {
      expect(ports).toEqual([{ name: port.name, port: port.containerPort, targetPort: port.name }])
      expect(spec?.template.metadata?.labels).toMatchObject(selector ?? { none: "" })
    }
    expect(environmentOf(nodes, "x")["PORT"]).toBe(String(port.containerPort))
    expect(JSON.parse(settingsFileOf(nodes))).toMatchObject({
      platformUrl: `http://$(POD_NAME).${metadata?.name}.${metadata?.namespace}.svc:${port.containerPort}`
    })
    expect(ingressOf(nodes, present(nodes.ingress)).spec?.rules?.[0]?.http?.paths[0]?.backend.service).toEqual({
      name: serviceOf(nodes).metadata?.name,
      port: { name: port.name }
    })
  })

  it("have names that fit into the label of their workers' pods, even with the longest namespace", () => {
    const namespace = "n".repeat(50)
    const { name } = Schema.decodeUnknownSync(KubernetesSettings)(
      JSON.parse(settingsFileOf({ ...nodes, namespace }).replaceAll("$(POD_NAME)", "stint-99"))
    )
    expect(name).toBe(`stint-99.${namespace}`)
  })

  it("are probed at the platform's routes, and restarted only if the liveness probe fails", () => {
    const { livenessProbe, readinessProbe, startupProbe } = nodeOf(nodes)
    const routes = entries(at(document, "paths")).map(([path]) => path)
    for (const probe of [livenessProbe, readinessProbe, startupProbe]) expect(routes).toContain(probe?.httpGet?.path)
    expect([livenessProbe, startupProbe].map((probe) => probe?.httpGet?.path)).toEqual(["/healthz", "/healthz"])
    expect(readinessProbe?.httpGet?.path).toBe("/readyz")
    // `/readyz` may take 5 s.
    expect(readinessProbe?.timeoutSeconds).toBeGreaterThan(5)
  })

  it("write only to volumes, as the image's user", () => {
    const { securityContext, volumes = [] } = podOf(statefulSetOf(nodes))
    expect(dockerfile).toContain(`USER ${securityContext?.runAsUser}:${securityContext?.runAsGroup}\n`)
    const writable = (nodeOf(nodes).volumeMounts ?? []).filter(({ readOnly }) => readOnly !== true)
    expect(writable.map(({ mountPath }) => mountPath)).toEqual(["/data", "/tmp"])
    expect(dockerfile).toMatch(/^ENV HOME=\/data$/m)
    expect(volumes.map(({ name }) => name)).toEqual(["data", "tmp", "settings"])
    const { spec } = statefulSetOf(single)
    expect(spec?.template.spec?.volumes?.map(({ name }) => name)).toEqual(["tmp", "settings"])
    expect(spec).toMatchObject({
      replicas: 1,
      volumeClaimTemplates: [{ metadata: { name: "data" }, spec: { resources: { requests: { storage: "20Gi" } } } }]
    })
  })

  it("are replaced when the pod settings change", () => {
    const annotations = (installation: Installation) => statefulSetOf(installation).spec?.template.metadata?.annotations
    expect(annotations(nodes)).toEqual(annotations({ ...nodes, image: "other" }))
    expect(annotations(nodes)).not.toEqual(annotations({ ...nodes, pods: {} }))
  })

  it("run commands that exist", async () => {
    for (const pod of podsOf(nodes)) {
      const { code, stdout } = await runCommand([...pod.containers[0]?.args ?? [], "--help"], { env: {} })
      expect(code).toBe(0)
      expect(stdout).toContain(`stint ${pod.containers[0]?.args?.join(" ")}`)
    }
  })

  it("are drained one at a time, unless there is only one", () => {
    expect(budgetOf(nodes).spec).toMatchObject({ maxUnavailable: 1, selector: { matchLabels: PLATFORM } })
    const kinds = (installation: Installation) => manifestsOf(installation).map((object) => at(object, "kind"))
    const one: Installation = { ...nodes, store: { _tag: "Database", port: 5432, nodes: 1 } }
    expect(kinds(nodes)).toContain("PodDisruptionBudget")
    expect(kinds(one)).not.toContain("PodDisruptionBudget")
    expect(kinds(single)).not.toContain("PodDisruptionBudget")
    expect(kinds(single)).not.toContain("Job")
    expect(JSON.stringify(manifestsOf(single))).not.toContain("STINT_DATABASE")
  })
})

describe("the rights", () => {
  /** https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted */
  it.each(BOTH)("of pods pass the restricted Pod Security Standard: $which", ({ installation }) => {
    for (const pod of podsOf(installation)) {
      expect(pod.securityContext).toMatchObject({ runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } })
      expect(pod.securityContext?.runAsUser).toBeGreaterThan(0)
      expect([pod.hostNetwork, pod.hostPID, pod.hostIPC]).toEqual([undefined, undefined, undefined])
      expect(pod.initContainers).toBeUndefined()
      for (const { ports = [], securityContext } of pod.containers) {
        expect(securityContext).toEqual({
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] }
        })
        expect(ports.map(({ hostPort }) => hostPort).filter((port) => port !== undefined)).toEqual([])
      }
      const allowed = ["configMap", "emptyDir", "persistentVolumeClaim"]
      const types = (pod.volumes ?? []).flatMap(({ name: _, ...source }) => Object.keys(source))
      expect(types.filter((type) => !allowed.includes(type))).toEqual([])
    }
    for (const { metadata } of namespacesOf(installation)) {
      expect(metadata?.labels).toEqual({ "pod-security.kubernetes.io/enforce": "restricted" })
    }
  })

  it("in the cluster are those that the pool's requests need, only in the workers' namespace and only for the nodes", () => {
    const role = roleOf(nodes)
    expect(role.metadata?.namespace).toBe("stint-workers")
    expect(role.rules).toEqual(RIGHTS.map(({ resource, verbs }) => ({ apiGroups: [""], resources: [resource], verbs })))
    const { metadata, roleRef, subjects } = roleBindingOf(nodes)
    expect(metadata?.namespace).toBe(role.metadata?.namespace)
    expect(roleRef.name).toBe(role.metadata?.name)
    expect(subjects).toEqual([{ kind: "ServiceAccount", name: serviceAccountOf(nodes).metadata?.name, namespace: "stint" }])
    const [platform, migration] = podsOf(nodes)
    expect(platform).toMatchObject({ serviceAccountName: "stint", automountServiceAccountToken: true })
    expect(migration?.automountServiceAccountToken).toBe(false)
    expect(serviceAccountOf(nodes).automountServiceAccountToken).toBe(false)
    expect(manifestsOf(nodes).filter((object) => String(at(object, "kind")).startsWith("Cluster"))).toEqual([])
  })

  it("to secrets are references: no object contains a value", () => {
    const secrets = podsOf(nodes).flatMap(({ containers }) => containers).flatMap(({ env = [] }) => env)
      .filter(({ name }) => /KEY|DATABASE/.test(name))
    expect(secrets.length).toBeGreaterThan(3)
    for (const { name, value, valueFrom } of secrets) {
      expect({ value, valueFrom }).toEqual({ value: undefined, valueFrom: { secretKeyRef: { name: "stint", key: name } } })
    }
    expect(manifestsOf(nodes).map((object) => at(object, "kind"))).not.toContain("Secret")
  })
})

describe("the network policies", () => {
  const policies = policiesOf(nodes)
  const [platform, workers, migrations] = policies

  it("select the pods of the platform, the workers and the migration, and restrict both directions", () => {
    expect(policies.map(({ metadata, spec }) => [metadata?.namespace, spec?.podSelector?.matchLabels])).toEqual([
      ["stint", PLATFORM],
      ["stint-workers", WORKER_LABELS],
      ["stint", MIGRATIONS]
    ])
    for (const { spec } of policies) expect(spec?.policyTypes).toEqual(["Ingress", "Egress"])
    expect(statefulSetOf(nodes).spec?.template.metadata?.labels).toEqual(PLATFORM)
    expect(migrationOf(nodes).spec?.template.metadata?.labels).toEqual(MIGRATIONS)
  })

  /** The ports to which pods may connect anywhere, and those to chosen pods only. */
  const egressOf = (policy: typeof platform) => {
    const ports = (policy?.spec?.egress ?? []).map(({ ports = [], to }) => ({
      isAnywhere: to === undefined,
      ports: ports.map(({ port }) => port)
    }))
    return {
      anywhere: ports.filter(({ isAnywhere }) => isAnywhere).flatMap(({ ports }) => ports),
      chosen: ports.filter(({ isAnywhere }) => !isAnywhere).flatMap(({ ports }) => ports)
    }
  }

  it("let workers connect only to the platform and to DNS, and let no pod connect to workers", () => {
    expect(egressOf(workers)).toEqual({ anywhere: [], chosen: [53, 53, 4600] })
    expect(workers?.spec?.ingress).toBeUndefined()
    expect(workers?.spec?.egress?.at(-1)?.to).toEqual([{
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "stint" } },
      podSelector: { matchLabels: PLATFORM }
    }])
  })

  it("let the platform connect to the database and by https, and the migration to the database", () => {
    const other = policiesOf({ ...nodes, store: { _tag: "Database", port: 6432, nodes: 2 } })
    expect(egressOf(other[0])).toEqual({ anywhere: [443, 6443, 6432], chosen: [53, 53] })
    expect(egressOf(other[2])).toEqual({ anywhere: [6432], chosen: [53, 53] })
    expect(egressOf(policiesOf(single)[0]).anywhere).toEqual([443, 6443])
    expect(policiesOf(single)).toHaveLength(2)
    expect(migrations?.spec?.ingress).toBeUndefined()
  })

  it("let the pods of callers' namespaces and the workers connect to the platform", () => {
    expect(platform?.spec?.ingress).toEqual([{
      _from: [
        { namespaceSelector: { matchLabels: { "stint/callers": "true" } } },
        {
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "stint-workers" } },
          podSelector: { matchLabels: WORKER_LABELS }
        }
      ],
      ports: [{ protocol: "TCP", port: 4600 }]
    }])
  })
})

describe("stint kubernetes manifests", () => {
  const print = (...flags: ReadonlyArray<string>) => runCommand(["kubernetes", "manifests", ...flags], { env: {} })

  it("prints the objects as YAML, and as one JSON document", async () => {
    const pods = join(folder, "pods.json")
    writeFileSync(pods, JSON.stringify({ pods: nodes.pods, endpoints: nodes.endpoints }))
    const flags = [
      "--image",
      nodes.image,
      "--nodes",
      "3",
      "--host",
      "jobs.example.org",
      "--ingress-class",
      "nginx",
      "--pods",
      pods
    ]
    const { code, stdout } = await print(...flags)
    expect(code).toBe(0)
    expect(parseAllDocuments(stdout).map((one) => one.toJS())).toEqual(manifestsOf(nodes))
    const json = await print(...flags, "--json")
    expect(JSON.parse(json.stdout)).toEqual({ apiVersion: "v1", kind: "List", items: manifestsOf(nodes) })
    const { stdout: one } = await print("--image", single.image, "--volume", "20Gi")
    expect(parseAllDocuments(one).map((one) => one.toJS())).toEqual(manifestsOf(single))
  })

  it("reads each string as a string, even where YAML would read another type", async () => {
    const { stdout } = await print("--image", "1.10", "--namespace", "no", "--workers-namespace", "1e3")
    const [namespace, workers] = stdout.split("---\n").map((text) => at(parse(text), "metadata", "name"))
    expect([namespace, workers]).toEqual(["no", "1e3"])
    expect(stdout).toContain("image: \"1.10\"")
  })

  it.each([
    [["--volume", "20Gi", "--nodes", "2"], "--nodes has no effect with --volume"],
    [["--volume", "20Gi", "--database-port", "1"], "--database-port has no effect with --volume"],
    [["--tls-secret", "t"], "--tls-secret has no effect without --host"],
    [["--ingress-class", "t"], "--ingress-class has no effect without --host"],
    [["--volume", "20"], "Expected a size"],
    [["--namespace", "Stint"], "small letters"],
    [["--namespace", "a", "--workers-namespace", "a"], "a namespace other than the platform's"],
    [["--host", "https://jobs.example.org"], "Expected a host"],
    [["--nodes", "0"], "[\"store\"][\"nodes\"]"],
    [["--pods", "/none"], "cannot be read"],
    [["--pods", import.meta.filename], "is not valid"]
  ])("refuses %j, and prints nothing", async (flags, problem) => {
    const { code, stderr, stdout } = await print("--image", "x", ...flags)
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" })
    expect(stderr).toContain(problem)
  })

  it("contains the file that STINT_KUBERNETES names, in a ConfigMap that the nodes mount", () => {
    const { data, metadata } = configMapOf(nodes)
    expect(Object.entries(data ?? {})).toEqual([["kubernetes.json", settingsFileOf(nodes)]])
    expect(podOf(statefulSetOf(nodes)).volumes?.find(({ name }) => name === "settings")?.configMap?.name).toBe(metadata?.name)
  })
})
