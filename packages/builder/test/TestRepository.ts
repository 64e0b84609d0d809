/** A Git repository in a temporary folder, and a stand-in for the engine's program. */
import { execFileSync } from "node:child_process"
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import process from "node:process"

const ENV = {
  PATH: process.env["PATH"] ?? "",
  HOME: "/nonexistent",
  GIT_CONFIG_NOSYSTEM: "1",
  ...Object.fromEntries(
    ["AUTHOR", "COMMITTER"].flatMap((who) => [[`GIT_${who}_NAME`, "Ada"], [`GIT_${who}_EMAIL`, "ada@example.com"]])
  )
}

/** A repository whose folder is removed when it is disposed of. */
export class TestRepository {
  readonly folder = mkdtempSync(join(tmpdir(), "stint-repository-"))
  readonly path = join(this.folder, "words.git")

  constructor() {
    mkdirSync(this.path)
    this.git("init", "--quiet", "--initial-branch", "main")
  }

  git(...args: ReadonlyArray<string>): string {
    return execFileSync("git", args, { cwd: this.path, env: ENV, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim()
  }

  /** Commits files, and returns the commit. */
  commit(files: Readonly<Record<string, string>>): string {
    for (const [name, text] of Object.entries(files)) {
      mkdirSync(dirname(join(this.path, name)), { recursive: true })
      writeFileSync(join(this.path, name), text)
    }
    this.git("add", "--all")
    this.git("commit", "--quiet", "--allow-empty", "--message", "change")
    return this.git("rev-parse", "HEAD")
  }

  /** Writes a shell script, and returns its path. */
  script(name: string, ...lines: ReadonlyArray<string>): string {
    const file = join(this.folder, name)
    writeFileSync(file, ["#!/bin/sh", ...lines, ""].join("\n"))
    chmodSync(file, 0o755)
    return file
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true })
  }
}
