import { defineConfig } from "vitest/config"

/**
 * Two tiers. `*.long.test.ts` files take minutes: they kill and freeze real processes, or run the whole HTTP suite over another variant of the
 * server. `pnpm test:long` runs them; for one file it is
 * `STINT_TIER=long pnpm unit <file>`. `pnpm test` runs all other files.
 */
const isLong = process.env["STINT_TIER"] === "long"

export default defineConfig({
  test: {
    include: isLong
      ? ["{packages,apps}/*/test/**/*.long.test.ts", "scripts/test/**/*.long.test.ts"]
      : [
        "{packages,apps,examples}/*/test/**/*.test.ts",
        "benchmarks/test/**/*.test.ts",
        "examples/*/*.test.ts",
        "scripts/test/**/*.test.ts"
      ],
    exclude: ["**/node_modules/**", ...(isLong ? [] : ["**/*.long.test.ts"])],
    // Its modules import each other without extensions, which Node does not resolve.
    server: { deps: { inline: ["@ngrok/webernetes"] } },
    // Tests start servers and worker processes of their own: one process a file, so that a leak of one file ends with it.
    pool: "forks",
    maxWorkers: 2,
    // Long enough for a test that kills and restarts real processes on a busy machine; a test that only computes never gets near.
    testTimeout: 30_000,
    hookTimeout: 30_000,
    teardownTimeout: 10_000,
    passWithNoTests: true,
    silent: "passed-only",
    reporters: ["minimal"]
  }
})
