/**
 * `pnpm format`: writes the derived fields of the manifests, applies the safe fixes of lint, and formats every file.
 *
 * `pnpm check` reports the problems that remain.
 */
import { execute } from "./checks.ts"

await execute(["node", "scripts/check-manifests.ts", "--fix"])
await execute(["oxlint", "--fix"])
// Formatting runs last, because the fixes above are not formatted.
const { ok, output } = await execute(["dprint", "fmt"])
console.log(output.trim() || "No file changed.")
process.exitCode = ok ? 0 : 1
