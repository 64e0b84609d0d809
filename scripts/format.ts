/**
 * `pnpm format`: writes what can be derived into the manifests, applies lint's safe fixes, and lays every file out.
 *
 * What is left for a person, `pnpm check` tells.
 */
import { execute } from "./checks.ts"

await execute(["node", "scripts/check-manifests.ts", "--fix"])
await execute(["oxlint", "--fix"])
// Last: the fixes are not laid out.
const { ok, output } = await execute(["dprint", "fmt"])
console.log(output.trim() || "Every file was in order.")
process.exitCode = ok ? 0 : 1
