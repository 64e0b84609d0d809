/**
 * The endpoints that `pnpm start` serves.
 */
import { defineConfig } from "@stint/cli"

export default defineConfig({
  endpoints: {
    answer: { handler: "./08-pipelines/answer/handler.ts" },
    // Its folder is relative to its handler. The schedule that runs it every night is in package.json.
    cleanup: { handler: "./09-nightly/handler.ts", env: { CLEANUP_FOLDER: "../08-pipelines/gallery/local_upload" } },
    countdown: { handler: "./02-countdown/handler.ts" },
    echo: { handler: "./07-openai/handler.ts" },
    gallery: { handler: "./08-pipelines/gallery/handler.ts" },
    hello: { handler: "./01-hello/handler.ts" },
    layers: { handler: "./03-layers/handler.ts" },
    order: { handler: "./08-pipelines/order/handler.ts" },
    plugins: { handler: "./05-plugins/handler.ts" },
    summary: { handler: "./08-pipelines/summary/handler.ts" },
    thumbnails: { handler: "./04-thumbnails/handler.ts", scaler: { type: "REQUEST_COUNT", perWorker: 4 } }
  }
})
