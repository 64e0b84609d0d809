/**
 * Follows the pods of one platform: a list, and then the changes.
 *
 * ```
 *   list --version--> watch --ended by the server--> watch from the last version
 *    ^                  |  410 Gone, an error, ended at once without an event, RESYNC has passed
 *    +------------------+
 * ```
 *
 * A watch can lose an event without an error, so the table reads the list again periodically. While the API does not respond, the
 * pods keep running and count as unchanged.
 */
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Result from "effect/Result"
import { isExpired, type KubernetesError } from "./KubernetesError.ts"
import type { Pod } from "./Pod.ts"
import type { Listed, PodsApi } from "./PodsApi.ts"

/** The interval between lists. Milliseconds. */
const RESYNC = 300_000

/** A watch that ends sooner than this is not repeated immediately. Milliseconds. */
const SHORT = 1_000

/** How soon to retry after the API did not respond, or ended a watch at once. */
const RETRY = "1 second"

/** An observed state of a pod. */
export type Seen =
  | { readonly _tag: "Pod"; readonly pod: Pod }
  /** The pod no longer exists. `pod`: its last seen state, if any. */
  | { readonly _tag: "Removed"; readonly pod: Pod | undefined }

export interface PodTable {
  /** Follows all states of the pod with this name until {@link unfollow}. The pod need not exist yet. Each name has one follower. */
  readonly follow: (name: string) => Queue.Queue<Seen>
  readonly unfollow: (name: string) => void
  /** Adds a created pod, so that its removal is noticed even if none of its events was seen. */
  readonly add: (pod: Pod) => void
  /** Reads lists and watches until it is interrupted. `onUnfollowed` receives each listed pod without a follower. */
  readonly run: (first: Listed, onUnfollowed: (pod: Pod) => Effect.Effect<void>) => Effect.Effect<never>
}

export const make = (api: PodsApi, now: () => number = () => performance.now()): PodTable => {
  const pods = new Map<string, Pod>()
  const followers = new Map<string, Queue.Queue<Seen>>()

  const tell = (name: string, seen: Seen): void => {
    const follower = followers.get(name)
    if (follower !== undefined) Queue.offerUnsafe(follower, seen)
  }
  const update = (pod: Pod): void => {
    pods.set(pod.metadata.name, pod)
    tell(pod.metadata.name, { _tag: "Pod", pod })
  }
  const remove = (name: string, pod: Pod | undefined): void => {
    pods.delete(name)
    tell(name, { _tag: "Removed", pod })
  }

  /** `before`: the pods that were known before the list was requested. Others may have been created since. */
  const replace = (listed: Listed, before: ReadonlySet<string>): void => {
    const names = new Set(listed.pods.map(({ metadata }) => metadata.name))
    for (const pod of listed.pods) update(pod)
    for (const name of before) if (!names.has(name)) remove(name, pods.get(name))
  }

  /** Watches until the list must be read again. */
  const watchFrom = Effect.fnUntraced(function*(first: string): Effect.fn.Return<void, KubernetesError> {
    const listedAt = now()
    let version = first
    while (now() - listedAt < RESYNC) {
      const watchedAt = now()
      const before = version
      yield* api.watch(version, (event) =>
        Effect.sync(() => {
          version = event.object.metadata.resourceVersion
          if (event.type === "DELETED") remove(event.object.metadata.name, event.object)
          else if (event.type !== "BOOKMARK") update(event.object)
        }))
      // A watch lasts many seconds, unless a proxy between the platform and the API ends it.
      if (now() - watchedAt >= SHORT) continue
      yield* Effect.sleep(RETRY)
      // The watch delivered nothing, so read the list instead.
      if (version === before) return
    }
  })

  /** Reads the list if none is given, then watches until the list must be read again. */
  const cycle = Effect.fnUntraced(function*(
    given: Listed | undefined,
    onListed: Effect.Effect<void>,
    onUnfollowed: (pod: Pod) => Effect.Effect<void>
  ): Effect.fn.Return<void, KubernetesError> {
    const before = new Set(given === undefined ? pods.keys() : [])
    const listed = given ?? (yield* api.list)
    yield* onListed
    replace(listed, before)
    yield* Effect.forEach(listed.pods.filter(({ metadata }) => !followers.has(metadata.name)), onUnfollowed, { discard: true })
    yield* watchFrom(listed.version)
  })

  return {
    follow: (name) => {
      const known = followers.get(name)
      if (known !== undefined) return known
      const follower = Effect.runSync(Queue.unbounded<Seen>())
      followers.set(name, follower)
      const pod = pods.get(name)
      if (pod !== undefined) Queue.offerUnsafe(follower, { _tag: "Pod", pod })
      return follower
    },
    unfollow: (name) => {
      followers.delete(name)
      pods.delete(name)
    },
    add: (pod) => {
      if (!pods.has(pod.metadata.name)) update(pod)
    },
    run: Effect.fnUntraced(function*(first, onUnfollowed) {
      let isAnswering = true
      const onListed = Effect.suspend(() => {
        if (isAnswering) return Effect.void
        isAnswering = true
        return Effect.logInfo("The Kubernetes API responds again.")
      })
      let listed: Listed | undefined = first
      while (true) {
        const result: Result.Result<void, KubernetesError> = yield* Effect.result(cycle(listed, onListed, onUnfollowed))
        listed = undefined
        if (result._tag === "Success") continue
        if (isAnswering && !isExpired(result.failure)) {
          isAnswering = false
          yield* Effect.logWarning(`The state of the pods is unknown; they count as running. ${result.failure.message}`)
        }
        yield* Effect.sleep(RETRY)
      }
    })
  }
}
