/** A Restate service on the loopback with one no-op handler. */
import * as restate from "@restatedev/restate-sdk"
import { createServer } from "node:http2"
import { OUTPUT } from "../src/SubjectProcess.ts"

const service = restate.service({ name: "bench", handlers: { work: async () => OUTPUT } })
const server = createServer(restate.createEndpointHandler({ services: [service] }))
server.listen(0, "127.0.0.1", () => process.send({ port: server.address().port }))
process.once("disconnect", () => process.exit())
