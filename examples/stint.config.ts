/**
 * The endpoints that `pnpm start` serves.
 */
import { defineConfig } from "@stint/cli"

export default defineConfig({
  endpoints: {
    echo: { handler: "./07-openai/handler.ts" },
    gallery: { handler: "./08-pipelines/handler.ts" },
    hello: { handler: "./01-hello/handler.ts" },
    countdown: { handler: "./02-countdown/handler.ts" },
    layers: { handler: "./03-layers/handler.ts" },
    plugins: { handler: "./05-plugins/handler.ts" },
    thumbnails: { handler: "./04-thumbnails/handler.ts", scaler: { type: "REQUEST_COUNT", perWorker: 4 } }
  }
})
