import { basename } from "node:path"
import { expect, test } from "vitest"
import { checks } from "../checks.ts"
import { SmallWorkspace } from "./SmallWorkspace.ts"

const command = [...checks.find(({ name }) => name === "unused")!.command, "--reporter", "json"]

/** The problems that the check reports: `file: name`, or `file` for an unused file. */
const foundIn = async (workspace: SmallWorkspace): Promise<ReadonlyArray<string>> => {
  const { output } = await workspace.run(command)
  const { issues }: { issues: ReadonlyArray<{ file: string; [kind: string]: unknown }> } = JSON.parse(output)
  return issues.flatMap(({ file, ...kinds }) =>
    Object.entries(kinds).flatMap(([kind, found]) =>
      (Array.isArray(found) ? found : []).map(({ name }: { name: string }) => kind === "files" ? file : `${file}: ${name}`)
    )
  )
}

test("the unused check reports an unused export and an unused file", async () => {
  using workspace = new SmallWorkspace()
  await workspace.run(["node", "scripts/check-manifests.ts", "--fix"])
  const before = await foundIn(workspace)

  const [imported = "", , inner = ""] = workspace.modules
  workspace.append(imported, "\nexport const plantedInPublicModule = 1\nexport const plantedForDocs = 1\n")
  workspace.write(
    "docs/page.md",
    `\`\`\`ts\nimport { plantedForDocs } from "@stint/contract/${basename(imported, ".ts")}"\n\`\`\`\n`
  )
  workspace.append(inner, "\nexport const plantedInInnerModule = 1\n/** @public */\nexport const plantedForUsers = 1\n")
  workspace.write("packages/contract/src/folder/PlantedFile.ts", "export const planted = 1\n")
  workspace.write("packages/contract/src/folder/PlantedThread.ts", "console.log(1)\n")
  workspace.append("packages/contract/src/index.ts", "\nnew Worker(new URL(\"./folder/PlantedThread.ts\", import.meta.url))\n")

  const after = await foundIn(workspace)
  expect(after.filter((one) => !before.includes(one)).toSorted()).toEqual([
    `${imported}: plantedInPublicModule`,
    `${inner}: plantedInInnerModule`,
    "packages/contract/src/folder/PlantedFile.ts"
  ].toSorted())
  expect((await workspace.run(command)).code).not.toBe(0)
})
