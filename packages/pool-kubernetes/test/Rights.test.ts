/** The rights that the pool names in roles and errors are those that its requests need. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { RIGHTS } from "../src/ClusterRules.ts"
import { running } from "./StubCluster.ts"
import { until, world } from "./TestWorld.ts"

const METHODS: Readonly<Record<string, string>> = { POST: "create", DELETE: "delete", PATCH: "patch", PUT: "update" }

/** The verb and the resource of a request. https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb */
const rightOf = (request: string): string => {
  const [method = "", url = ""] = request.split(" ")
  const { pathname, searchParams } = new URL(url, "http://api")
  const [resource = "", name, subresource] = pathname.replace(/^\/api\/v1\/namespaces\/jobs\//, "").split("/")
  const read = name !== undefined ? "get" : searchParams.get("watch") === "true" ? "watch" : "list"
  return `${METHODS[method] ?? read} ${subresource === undefined ? resource : `${resource}/${subresource}`}`
}

describe("the rights of the platform", () => {
  it.live("are those of the requests from a worker's start to its removal, including its adoption by another platform", () =>
    Effect.gen(function*() {
      const { cluster, lines, pool, start } = yield* world
      const starting = yield* Effect.forkScoped(start(yield* pool()))
      const pod = yield* until("the pod", () => cluster.created[0])
      cluster.set(pod, running)
      const handle = yield* Fiber.join(starting)
      pod.print("2026-11-23T10:00:01.000000001Z", "ready")
      yield* until("the output", () => lines.length > 0 ? true : undefined)
      assert.lengthOf((yield* pool()).orphans, 1)
      yield* handle.kill
      yield* handle.exit
      const sent = new Set(cluster.requests.map(rightOf))
      const named = RIGHTS.flatMap(({ resource, verbs }) => verbs.map((verb) => `${verb} ${resource}`))
      assert.deepStrictEqual([...sent].sort(), [...named].sort())
    }))
})
