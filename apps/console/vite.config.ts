/**
 * Builds the console into dist/: `index.html`, and scripts and styles whose names contain their hashes. The platform serves `/console/assets/`
 * with a year of caching (packages/server/src/console/ConsoleFiles.ts).
 */
import react from "@vitejs/plugin-react"
import { defineConfig } from "vite"

export default defineConfig({
  plugins: [react()],
  build: {
    assetsDir: "console/assets",
    // Every asset is a file, because the page's policy allows no `data:` scripts, fonts or styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // The licences of the bundled packages, which the published package must contain.
    license: { fileName: "LICENSES.md" },
    target: "es2023"
  },
  server: {
    // For `vite`, which serves the console during work on it, next to `pnpm start`.
    proxy: Object.fromEntries(["/api", "/v2"].map((path) => [path, "http://127.0.0.1:4600"]))
  }
})
