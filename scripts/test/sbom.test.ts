import { execFileSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { expect, it } from "vitest"
import { publishable, root } from "../workspace.ts"

it("the bill of materials has every dependency of each package that is published", () => {
  const folder = mkdtempSync(join(tmpdir(), "stint-sbom-"))
  try {
    const file = join(folder, "sbom.json")
    execFileSync(process.execPath, [join(root, "scripts/release.ts"), "sbom", file], { stdio: "ignore" })
    const { bomFormat, components } = JSON.parse(readFileSync(file, "utf8"))
    expect(bomFormat).toBe("CycloneDX")
    const names = new Set(
      components.map(({ group, name }: { group?: string; name: string }) => group === undefined ? name : `${group}/${name}`)
    )
    for (const { manifest, name } of publishable) {
      for (const dependency of Object.keys(manifest.dependencies ?? {})) {
        expect(names, `${dependency} of ${name}`).toContain(dependency)
      }
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}, 120_000)
