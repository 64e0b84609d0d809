/**
 * DBOS behind node:http, with PostgreSQL: `POST /pipeline` runs a workflow of three steps that do nothing in this process, and responds with its result.
 * Argument: the URL of the database.
 */
import { DBOS } from "@dbos-inc/dbos-sdk"
import { OUTPUT } from "../src/SubjectProcess.ts"
import { serveOperation } from "../src/subjects/OperationServer.ts"

const pipeline = DBOS.registerWorkflow(async () => {
  const { n } = await DBOS.runStep(async () => ({ n: 1 }), { name: "first" })
  await DBOS.runStep(async () => ({ n: n + 1 }), { name: "second" })
  return await DBOS.runStep(async () => OUTPUT, { name: "third" })
}, { name: "pipeline" })

DBOS.setConfig({ name: "bench", systemDatabaseUrl: process.argv[2], systemDatabasePoolSize: 32, logLevel: "error" })
await DBOS.launch()
await serveOperation((body) => pipeline(body.input))
process.once("disconnect", () => process.exit())
