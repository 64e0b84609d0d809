import { expect, test } from "vitest"
import { arrowProblems } from "../arrows.ts"
import type { Manifest } from "../workspace.ts"

type Kind = "dependencies" | "devDependencies" | "peerDependencies"

/** The problems reported for a single dependency between packages in these folders. */
const problemsOf = (from: string, to: string, kind: Kind = "dependencies"): ReadonlyArray<string> => {
  const manifests = new Map([from, to].map((folder): [string, Manifest] => [folder, { name: nameOf(folder) }]))
  manifests.get(from)![kind] = { [nameOf(to)]: "workspace:*" }
  return arrowProblems(
    [...manifests].map(([folder, manifest]) => ({ name: manifest.name, path: `/${folder}`, folder, manifest }))
  )
}

const nameOf = (folder: string) => `@stint/${folder.split("/").at(-1)}`

test.each<[string, string, Kind?]>([
  ["packages/store", "packages/contract"],
  ["packages/store-sqlite", "packages/store"],
  ["packages/server", "packages/queue"],
  ["packages/sdk", "packages/worker-uploads"],
  ["packages/store-sqlite", "packages/store-testing", "devDependencies"],
  ["packages/server-testing", "packages/store-testing"],
  ["packages/client", "packages/server", "devDependencies"],
  ["apps/cli", "packages/store-sqlite"],
  ["examples/05-plugins", "packages/worker-uploads"],
  ["apps/console", "packages/client", "devDependencies"],
  ["apps/console", "packages/contract", "devDependencies"],
  ["apps/cli", "apps/console", "devDependencies"],
  ["benchmarks", "packages/store-testing"]
])("%s may depend on %s", (from, to, kind) => {
  expect(problemsOf(from, to, kind)).toEqual([])
})

test.each<[string, string, string, Kind?]>([
  ["packages/store", "packages/store-sqlite", "an implementation"],
  ["packages/pool", "packages/pool-process", "an implementation", "devDependencies"],
  ["packages/payloads", "packages/payloads-s3", "an implementation"],
  ["packages/worker", "packages/worker-uploads", "an implementation"],
  ["packages/worker-progress", "packages/worker-uploads", "an implementation"],
  ["packages/server", "packages/store-sqlite", "an implementation", "devDependencies"],
  ["packages/sdk", "packages/store-sqlite", "an implementation"],
  ["packages/store-sqlite", "packages/store-testing", "Move it to devDependencies"],
  ["packages/store-sqlite", "packages/store-testing", "Move it to devDependencies", "peerDependencies"],
  ["apps/cli", "packages/server-testing", "Move it to devDependencies"],
  ["packages/contract", "packages/store-testing", "The contract must not depend on workspace packages", "devDependencies"],
  ["packages/client", "packages/contract", "The client must have no dependencies"],
  ["apps/console", "packages/server", "The console runs in browsers", "devDependencies"],
  ["packages/server", "apps/cli", "is a program", "devDependencies"]
])("%s may not depend on %s: %s", (from, to, reason, kind) => {
  expect(problemsOf(from, to, kind)).toEqual([expect.stringContaining(reason)])
})

test("a dependency cycle of any kind is an error", () => {
  const one = (name: string, manifest: Partial<Manifest>) => ({
    name: `@stint/${name}`,
    path: `/${name}`,
    folder: `packages/${name}`,
    manifest: { name: `@stint/${name}`, ...manifest }
  })
  const problems = arrowProblems([
    one("queue", { dependencies: { "@stint/store": "workspace:*" } }),
    one("store", { devDependencies: { "@stint/webhooks": "workspace:*" } }),
    one("webhooks", { peerDependencies: { "@stint/queue": "workspace:*" } })
  ])
  expect(problems).toEqual([
    expect.stringContaining("@stint/queue -> @stint/store -> @stint/webhooks -> @stint/queue")
  ])
})
