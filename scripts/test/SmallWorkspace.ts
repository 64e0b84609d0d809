/**
 * A small workspace in a temporary folder: the package `contract` of this workspace, an app that imports two of its modules, and the scripts.
 */
import { execFile } from "node:child_process"
import { cpSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { basename, delimiter, dirname, join } from "node:path"
import { type Manifest, readManifest, root } from "../workspace.ts"

/** The exit code and output of a command. */
interface Ended {
  readonly code: number
  readonly output: string
}

export class SmallWorkspace implements Disposable {
  readonly root = mkdtempSync(join(tmpdir(), "stint-workspace-"))

  constructor() {
    const files = ["knip.json", "packages/contract/src", "packages/contract/package.json", "packages/contract/README.md"]
    for (const file of [...files, ...globSync("scripts/*.ts", { cwd: root })]) {
      cpSync(join(root, file), join(this.root, file), { recursive: true })
    }
    for (const folder of ["node_modules", "packages/contract/node_modules"]) {
      symlinkSync(join(root, folder), join(this.root, folder))
    }
    this.write("pnpm-workspace.yaml", "packages:\n  - packages/*\n  - apps/*\n")
    this.write("package.json", JSON.stringify({ name: "small", private: true, type: "module" }))
    this.write(
      "apps/reader/package.json",
      JSON.stringify({
        name: "@stint/reader",
        description: "Imports two modules",
        keywords: ["example"],
        dependencies: { "@stint/contract": "workspace:*" }
      })
    )
    this.write("apps/reader/README.md", "# Reader\n")
    this.write(
      "apps/reader/src/index.ts",
      this.modules.slice(0, 2).map((file) => `export * from "@stint/contract/${basename(file, ".ts")}"\n`).join("")
    )
    this.link("packages/contract", "apps/reader/node_modules/@stint/contract")
  }

  /** The modules that the index of `contract` re-exports, as paths from the root. The app imports the first two. */
  get modules(): ReadonlyArray<string> {
    const index = readFileSync(join(root, "packages/contract/src/index.ts"), "utf8")
    return globSync("packages/contract/src/**/*.ts", { cwd: root }).toSorted().filter((file) =>
      index.includes(`/${basename(file)}"`)
    )
  }

  write(file: string, text: string): void {
    mkdirSync(dirname(join(this.root, file)), { recursive: true })
    writeFileSync(join(this.root, file), text)
  }

  append(file: string, text: string): void {
    this.write(file, readFileSync(join(this.root, file), "utf8") + text)
  }

  link(target: string, path: string): void {
    mkdirSync(dirname(join(this.root, path)), { recursive: true })
    symlinkSync(join(this.root, target), join(this.root, path))
  }

  /** Changes the manifest of `contract`. */
  change(edit: (manifest: Manifest) => void): void {
    const file = "packages/contract/package.json"
    const manifest = readManifest(join(this.root, file))
    edit(manifest)
    this.write(file, JSON.stringify(manifest))
  }

  /** Runs a program of this workspace in the small one. */
  run([program = "", ...args]: ReadonlyArray<string>): Promise<Ended> {
    const path = [dirname(process.execPath), join(root, "node_modules/.bin"), process.env["PATH"]].join(delimiter)
    return new Promise((resolve) => {
      const child = execFile(
        program,
        args,
        { cwd: this.root, env: { ...process.env, PATH: path } },
        (_error, stdout, stderr) => resolve({ code: child.exitCode ?? 1, output: stdout + stderr })
      )
    })
  }

  [Symbol.dispose](): void {
    rmSync(this.root, { recursive: true, force: true })
  }
}
