/**
 * `stint kubernetes manifests` prints the objects that run the platform in a cluster, for `kubectl apply` (docs/operations/kubernetes.md).
 */
import { Command, Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import { CliFailure } from "../CliFailure.ts"
import * as Output from "../output/Output.ts"
import { json, queryOf } from "./SharedFlags.ts"

/** Loads the manifests and the schemas of pods, which only this command needs. */
const loadInstallation = Effect.promise(() => import("../kubernetes/Installation.ts"))
const loadManifests = Effect.promise(() => import("../kubernetes/Manifests.ts"))

const without = (message: string) => message.replace(/\.$/, "")

const readPods = Effect.fnUntraced(function*(file: string) {
  const fs = yield* FileSystem.FileSystem
  const failure = (problem: string) =>
    new CliFailure({
      message: `The file ${file} ${problem}.`,
      hint: "It has the members pods and endpoints of docs/operations/kubernetes.md#the-settings."
    })
  const text = yield* Effect.mapError(fs.readFileString(file), ({ message }) => failure(`cannot be read: ${without(message)}`))
  const { decodePods } = yield* loadInstallation
  return yield* Effect.mapError(decodePods(text), ({ message }) => failure(`is not valid: ${without(message)}`))
})

const manifests = Command.make(
  "manifests",
  {
    image: Flag.String("image").pipe(Flag.withDescription("The image of the platform, for example registry.example.com/stint:1")),
    namespace: Flag.String("namespace").pipe(
      Flag.withDescription("The namespace of the platform; default: stint"),
      Flag.withDefault("stint")
    ),
    workersNamespace: Flag.String("workers-namespace").pipe(
      Flag.withDescription("The namespace of the workers' pods; default: NAMESPACE-workers"),
      Flag.optional
    ),
    nodes: Flag.Int("nodes").pipe(Flag.withDescription("How many nodes share the database; default: 2"), Flag.optional),
    databasePort: Flag.Int("database-port").pipe(
      Flag.withDescription("The port of PostgreSQL, which the network policies allow; default: 5432"),
      Flag.optional
    ),
    volume: Flag.String("volume").pipe(
      Flag.withMetavar("size"),
      Flag.withDescription("One node without PostgreSQL, with a volume of this size for its data: 20Gi"),
      Flag.optional
    ),
    host: Flag.String("host").pipe(
      Flag.withDescription("The host of an Ingress with TLS, for example jobs.example.org; default: no Ingress"),
      Flag.optional
    ),
    ingressClass: Flag.String("ingress-class").pipe(
      Flag.withDescription("The class of the Ingress; default: that of the cluster"),
      Flag.optional
    ),
    tlsSecret: Flag.String("tls-secret").pipe(
      Flag.withDescription("The Secret with the certificate of the host; default: stint-tls"),
      Flag.optional
    ),
    pods: Flag.String("pods").pipe(
      Flag.withMetavar("file"),
      Flag.withDescription("A JSON file with the settings of workers' pods: { \"pods\": { ... }, \"endpoints\": { ... } }"),
      Flag.optional
    ),
    json
  },
  Effect.fnUntraced(
    function*({ databasePort, host, image, ingressClass, json, namespace, nodes, pods, tlsSecret, volume, workersNamespace }) {
      const flags: Readonly<Record<string, Option.Option<unknown>>> = Option.isSome(volume)
        ? { nodes, "database-port": databasePort }
        : {}
      const needless = Object.entries({
        ...flags,
        ...(Option.isNone(host) && { "ingress-class": ingressClass, "tls-secret": tlsSecret })
      }).find(([, value]) => Option.isSome(value))?.[0]
      if (needless !== undefined) {
        return yield* new CliFailure({
          message: `--${needless} has no effect ${
            Option.isSome(volume) && needless in flags ? "with --volume" : "without --host"
          }.`,
          hint: `Remove it, or see: stint kubernetes manifests --help`
        })
      }
      const { decode } = yield* loadInstallation
      const { manifestsOf } = yield* loadManifests
      const installation = yield* decode({
        image,
        namespace,
        workersNamespace: Option.getOrElse(workersNamespace, () => `${namespace}-workers`),
        store: Option.isSome(volume)
          ? { _tag: "Volume", size: volume.value }
          : { _tag: "Database", port: Option.getOrElse(databasePort, () => 5432), nodes: Option.getOrElse(nodes, () => 2) },
        ...(Option.isSome(host) && {
          ingress: {
            host: host.value,
            ...queryOf({ className: ingressClass }),
            tlsSecret: Option.getOrElse(tlsSecret, () => "stint-tls")
          }
        }),
        ...(Option.isSome(pods) && (yield* readPods(pods.value)))
      }).pipe(Effect.mapError(({ message }) =>
        new CliFailure({
          message: `The flags are not valid: ${without(message)}.`,
          hint: "See: stint kubernetes manifests --help"
        })
      ))
      const objects = manifestsOf(installation)
      if (json) {
        return yield* Output.print(true, { apiVersion: "v1", kind: "List", items: objects }, () => "")
      }
      const { stringify } = yield* Effect.promise(() => import("yaml"))
      yield* Output.text(
        objects.map((object) => stringify(object, { aliasDuplicateObjects: false, lineWidth: 0 })).join("---\n").trimEnd()
      )
    }
  )
).pipe(
  Command.withDescription("Print the objects that run the platform in a cluster, as YAML for kubectl apply"),
  Command.withExamples([
    {
      command: "stint kubernetes manifests --image registry.example.com/stint:1 > stint.yaml",
      description: "Two nodes with PostgreSQL"
    },
    {
      command: "stint kubernetes manifests --image registry.example.com/stint:1 --volume 20Gi",
      description: "One node without PostgreSQL"
    }
  ])
)

/** `stint kubernetes`. */
export const kubernetes = Command.make("kubernetes").pipe(
  Command.withDescription("Run the platform in a Kubernetes cluster"),
  Command.withSubcommands([manifests])
)
