import process from "node:process"
import { defineConfig } from "vitest/config"

/** The tests of one target of scripts/mutation.ts. */
export default defineConfig({
  test: {
    include: (process.env["MUTATION_TESTS"] ?? "").split(","),
    server: { deps: { inline: ["@ngrok/webernetes"] } },
    testTimeout: 30_000,
    silent: true
  }
})
