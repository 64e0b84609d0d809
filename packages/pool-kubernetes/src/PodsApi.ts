/**
 * The part of the Kubernetes API that the pool uses: pods of one namespace.
 *
 * | request | documentation |
 * |---|---|
 * | create, list, delete | https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#Operations |
 * | watch | https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes |
 * | log | https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log-of-the-specified-pod |
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { ApiRefused, ApiUnreachable, type KubernetesError } from "./KubernetesError.ts"
import { type ClusterAccess, json, stream } from "./KubernetesHttp.ts"
import { Pod, PodList, WatchEvent } from "./Pod.ts"

/** The name of a worker's container in its pod. */
export const CONTAINER = "worker"

/** The number of pods in a page of a list. */
const PAGE = 500

/** How long all pages of a list may take. */
const LIST_LIMIT = "1 minute"

/** How long the API server keeps a watch open. The next one continues from the last version. Seconds. */
const WATCH_SECONDS = 25

/** How long a watch may take in total. This also ends a connection that broke silently. */
const WATCH_LIMIT = "40 seconds"

/** The maximum size of a watch event, in characters: a pod of the maximum size with its managed fields. */
const MAX_EVENT = 8 * 1024 * 1024

/** A list of pods, and the version from which a watch continues. */
export interface Listed {
  readonly pods: ReadonlyArray<Pod>
  readonly version: string
}

export interface PodsApi {
  readonly create: (body: unknown) => Effect.Effect<Pod, KubernetesError>
  readonly list: Effect.Effect<Listed, KubernetesError>
  /** Sends SIGTERM to the pod's processes, and kills them after the grace period. Succeeds if there is no such pod. */
  readonly remove: (name: string, graceSeconds: number) => Effect.Effect<void, KubernetesError>
  /** Handles the events after a version. Returns when the API server ends the watch. */
  readonly watch: (
    version: string,
    onEvent: (event: Exclude<WatchEvent, { readonly type: "ERROR" }>) => Effect.Effect<void>
  ) => Effect.Effect<void, KubernetesError>
  /** Handles the chunks of a container's output, each line with its time in front. */
  readonly logs: (
    name: string,
    options: { readonly follow: boolean; readonly since: string | undefined },
    onChunk: (chunk: Buffer) => Effect.Effect<void>
  ) => Effect.Effect<void, KubernetesError>
}

const decodeEvent = Schema.decodeUnknownEffect(Schema.fromJsonString(WatchEvent))

/** `selector`: the labels of the pods to list and watch. */
export const make = (access: ClusterAccess, namespace: string, selector: string): PodsApi => {
  const pods = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`
  const query = (values: Readonly<Record<string, string>>) => `?${new URLSearchParams(values).toString()}`
  const pathOf = (name: string) => `${pods}/${encodeURIComponent(name)}`

  const list = Effect.gen(function*() {
    const all: Array<Pod> = []
    let rest: string | undefined
    while (true) {
      const path = pods +
        query({ labelSelector: selector, limit: String(PAGE), ...(rest === undefined ? {} : { continue: rest }) })
      const page = yield* json(access, { method: "GET", path }, PodList)
      all.push(...page.items)
      rest = page.metadata.continue
      if (rest === undefined || rest === "") return { pods: all, version: page.metadata.resourceVersion }
    }
  }).pipe(
    Effect.timeoutOrElse({
      duration: LIST_LIMIT,
      orElse: () => Effect.fail(new ApiUnreachable({ problem: `a list of pods did not end within ${LIST_LIMIT}` }))
    })
  )

  return {
    create: (body) => json(access, { method: "POST", path: pods, body }, Pod),
    list,
    remove: (name, graceSeconds) =>
      json(
        access,
        {
          method: "DELETE",
          path: pathOf(name),
          body: { kind: "DeleteOptions", apiVersion: "v1", gracePeriodSeconds: graceSeconds }
        },
        Schema.Unknown
      ).pipe(
        Effect.asVoid,
        Effect.catchIf((error) => error._tag === "ApiRefused" && error.status === 404, () => Effect.void)
      ),
    watch: Effect.fnUntraced(function*(version, onEvent) {
      const path = pods + query({
        labelSelector: selector,
        watch: "true",
        allowWatchBookmarks: "true",
        resourceVersion: version,
        timeoutSeconds: String(WATCH_SECONDS)
      })
      const decoder = new TextDecoder()
      let open = ""
      yield* stream(
        access,
        { method: "GET", path },
        Effect.fnUntraced(function*(chunk) {
          const lines = (open + decoder.decode(chunk, { stream: true })).split("\n")
          open = lines.pop() ?? ""
          if (open.length > MAX_EVENT) {
            return yield* new ApiUnreachable({ problem: `an event of a watch is longer than ${MAX_EVENT} characters` })
          }
          for (const line of lines) {
            if (line === "") continue
            // Without the content, which can contain variables.
            const event = yield* Effect.mapError(
              decodeEvent(line),
              () => new ApiUnreachable({ problem: "a watch contains an event that is not from Kubernetes" })
            )
            if (event.type === "ERROR") {
              const { code = 0, message = "no reason", reason = "" } = event.object
              return yield* new ApiRefused({ status: code, reason, problem: message })
            }
            yield* onEvent(event)
          }
        })
      ).pipe(
        Effect.timeoutOrElse({
          duration: WATCH_LIMIT,
          orElse: () => Effect.fail(new ApiUnreachable({ problem: `a watch did not end within ${WATCH_LIMIT}` }))
        })
      )
    }),
    logs: (name, { follow, since }, onChunk) =>
      stream(
        access,
        {
          method: "GET",
          path: `${pathOf(name)}/log` + query({
            container: CONTAINER,
            follow: String(follow),
            timestamps: "true",
            ...(since === undefined ? {} : { sinceTime: since })
          })
        },
        onChunk
      )
  }
}
