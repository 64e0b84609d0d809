/** A Restate service on the loopback with a no-op handler and a handler that runs three durable steps. */
import * as restate from "@restatedev/restate-sdk"
import { createServer } from "node:http2"
import { OUTPUT } from "../src/SubjectProcess.ts"

const service = restate.service({
  name: "bench",
  handlers: {
    work: async () => OUTPUT,
    pipeline: async (ctx) => {
      const { n } = await ctx.run("first", () => ({ n: 1 }))
      await ctx.run("second", () => ({ n: n + 1 }))
      return await ctx.run("third", () => OUTPUT)
    }
  }
})
const server = createServer(restate.createEndpointHandler({ services: [service] }))
server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }))
process.once("disconnect", () => process.exit())
