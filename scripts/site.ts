/**
 * `pnpm site` serves the documentation on this machine and reloads a page when its file changes. `pnpm site build` builds it into site/dist and
 * fails on a dead link; `pnpm site preview` serves that build.
 *
 * The generator is not part of the workspace, because only this command needs it. It is installed into site/node_modules on first use, with
 * the versions in site/pnpm-lock.yaml.
 */
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import { pnpm } from "./pack.ts"
import { root } from "./workspace.ts"

const COMMANDS = ["dev", "build", "preview"]

const [command = "dev", ...options] = process.argv.slice(2)
const folder = join(root, "site")
const program = join(folder, "node_modules/vitepress/bin/vitepress.js")

const run = (program: string, args: ReadonlyArray<string>): number =>
  spawnSync(program, args, { cwd: folder, stdio: "inherit" }).status ?? 1

const install = (): number => {
  console.log("Installing the site generator into site/node_modules. This happens once.")
  const [program = "npx", ...args] = pnpm
  return run(program, [...args, "install", "--frozen-lockfile"])
}

if (!COMMANDS.includes(command)) {
  console.error(`Unknown command "${command}". Use ${COMMANDS.join(", ")} or none, which is dev.`)
  process.exitCode = 1
} else {
  const installed = existsSync(program) ? 0 : install()
  const listen = command === "build" ? [] : ["--host", "127.0.0.1"]
  process.exitCode = installed === 0 ? run(process.execPath, [program, command, folder, ...listen, ...options]) : installed
}
