import { rmSync } from "node:fs"
import { basename, join } from "node:path"
import { expect, test } from "vitest"
import { readManifest } from "../workspace.ts"
import { SmallWorkspace } from "./SmallWorkspace.ts"

const check = ["node", "scripts/check-manifests.ts"]

test("the manifests check compares exports with the imports, and --fix writes them", async () => {
  using workspace = new SmallWorkspace()
  const [imported, , unused] = workspace.modules.map((file) => `./${basename(file, ".ts")}`)
  await workspace.run([...check, "--fix"])
  expect(await workspace.run(check)).toEqual({ code: 0, output: "" })
  const { exports = {}, publishConfig } = readManifest(join(workspace.root, "packages/contract/package.json"))
  expect(exports).toMatchObject({ ".": "./src/index.ts", "./internal/*": null })
  expect(exports).toHaveProperty([imported!])
  expect(exports).not.toHaveProperty([unused!])
  expect(publishConfig?.exports).toMatchObject({ ".": "./dist/index.js", "./internal/*": null })

  workspace.change((manifest) => {
    manifest.exports = { ...exports, [unused!]: "./src/index.ts" }
  })
  const planted = await workspace.run(check)
  expect(planted.code).toBe(1)
  expect(planted.output).toContain(`packages/contract/package.json: exports has ${unused}, which no other package`)

  workspace.change((manifest) => {
    manifest.exports = Object.fromEntries(Object.entries(exports).filter(([key]) => key !== imported))
  })
  const missing = await workspace.run(check)
  expect(missing.code).toBe(1)
  expect(missing.output).toContain(
    `packages/contract/package.json: exports lacks ${imported}, which apps/reader/src/index.ts imports. \`pnpm format\` adds it.`
  )
})

test("the manifests check requires effect as a peer, and the fields that the registry shows", async () => {
  using workspace = new SmallWorkspace()
  await workspace.run([...check, "--fix"])
  workspace.change((manifest) => {
    delete manifest.keywords
    manifest.dependencies = { ...manifest.dependencies, effect: "catalog:" }
  })
  rmSync(join(workspace.root, "packages/contract/README.md"))
  const planted = await workspace.run(check)
  expect(planted.code).toBe(1)
  expect(planted.output).toContain("packages/contract/package.json: effect is in dependencies. Move it to peerDependencies")
  expect(planted.output).toContain(`packages/contract/package.json: "keywords" is missing`)
  expect(planted.output).toContain("packages/contract: README.md is missing")
})

test("the manifests of all packages get the repository's address once the root's manifest has one", async () => {
  using workspace = new SmallWorkspace()
  const address = { type: "git", url: "git+https://example.com/stint.git" }
  workspace.write("package.json", JSON.stringify({ name: "small", private: true, type: "module", repository: address }))
  await workspace.run([...check, "--fix"])
  const { repository } = readManifest(join(workspace.root, "packages/contract/package.json"))
  expect(repository).toEqual({ ...address, directory: "packages/contract" })
})
