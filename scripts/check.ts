/**
 * `pnpm check` runs every check but no tests.
 */
import { runChecks } from "./checks.ts"

process.exitCode = (await runChecks()) === 0 ? 0 : 1
