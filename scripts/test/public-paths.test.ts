import { expect, test } from "vitest"
import { publicPaths } from "../public-paths.ts"
import { packagesOf } from "../workspace.ts"
import { SmallWorkspace } from "./SmallWorkspace.ts"

test("a path is public when a file outside the package imports it", () => {
  using workspace = new SmallWorkspace()
  const files = [
    "index",
    "testing/index",
    "jobs/Job",
    "jobs/Cursor",
    "logs/Cursor",
    "jobs/Inner",
    "Page",
    "Generated",
    "internal/Secret"
  ]
  for (const file of files) workspace.write(`packages/store/src/${file}.ts`, "export const one = 1\n")
  workspace.write("packages/store/package.json", JSON.stringify({ name: "@stint/store" }))
  workspace.write("packages/store/test/Inner.test.ts", "import \"@stint/store/Inner\"\nimport \"@stint/store/Job\"\n")
  workspace.write("docs/page.md", "```ts\nimport { one } from \"@stint/store/Page\"\n```\n")
  workspace.append(
    "apps/reader/src/index.ts",
    [
      `import type { one } from "@stint/store/Job"`,
      `await import("@stint/store/logs/Cursor")`,
      `const program = "import \\"@stint/store/Generated\\""`,
      `// import "@stint/store/Inner"`,
      `/** import "@stint/store/Inner" */`,
      `export * from "@stint/store/Cursor"`,
      `export * from "@stint/store/Secret"`,
      `export * from "@stint/store/Missing"`
    ].join("\n")
  )

  const found = publicPaths(workspace.root, packagesOf(workspace.root)).get("@stint/store")
  expect(found?.exports).toEqual({
    ".": "./src/index.ts",
    "./Generated": "./src/Generated.ts",
    "./Job": "./src/jobs/Job.ts",
    "./Page": "./src/Page.ts",
    "./logs/Cursor": "./src/logs/Cursor.ts",
    "./testing": "./src/testing/index.ts",
    "./internal/*": null
  })
  expect(found?.ownImports).toMatchObject([{ file: "packages/store/test/Inner.test.ts", replacement: "../src/jobs/Inner.ts" }])
  expect(found?.problems).toEqual([
    expect.stringContaining("packages/store/src/jobs/Cursor.ts or packages/store/src/logs/Cursor.ts"),
    expect.stringContaining("@stint/store/Secret, which is internal"),
    expect.stringContaining("no such module")
  ])
})
