/**
 * `pnpm wire`: checks whether a server does what existing clients and workers require (docs/spec/compatibility.md#required-behaviour).
 *
 * ```
 *   pnpm wire --url http://127.0.0.1:4600 --key KEY                       Stint, with its admin key: creates an endpoint, and removes it
 *   pnpm wire --url URL --key KEY --endpoint ID --worker-key WORKER_KEY   any server; the endpoint must be idle
 * ```
 *
 * Prints one line for each check. Exits with 1 when one fails.
 */
import { randomUUID } from "node:crypto"
import process from "node:process"
import { parseArgs } from "node:util"
import { wireChecks } from "../packages/server-testing/src/wire/WireChecks.ts"

const { values } = parseArgs({
  options: {
    url: { type: "string", default: "http://127.0.0.1:4600" },
    key: { type: "string", default: process.env["STINT_API_KEY"] ?? "" },
    endpoint: { type: "string" },
    "worker-key": { type: "string" }
  }
})
const print = (text: string) => void process.stdout.write(`${text}\n`)
const url = values.url.replace(/\/$/, "")

const control = async (method: string, path: string, body?: object): Promise<string> => {
  const response = await fetch(`${url}/api/v1/endpoints${path}`, {
    method,
    headers: { authorization: `Bearer ${values.key}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  const text = await response.text()
  if (!response.ok) {
    throw new Error(
      `${method} /api/v1/endpoints${path} returned ${response.status}: ${text}. Pass --endpoint and --worker-key for a server other than Stint.`
    )
  }
  return text
}

/** An endpoint of its own, on a Stint server. */
const ownEndpoint = async (): Promise<readonly [id: string, workerKey: string]> => {
  const id = `wire-${randomUUID().slice(0, 8)}`
  await control("POST", "", { id, source: { type: "external" } })
  const { variables }: { readonly variables: Readonly<Record<string, string>> } = JSON.parse(
    await control("GET", `/${id}/worker-env?prefix=RUNPOD_`)
  )
  return [id, variables["RUNPOD_AI_API_KEY"] ?? ""]
}

const [endpoint, workerKey] = values.endpoint === undefined
  ? await ownEndpoint()
  : [values.endpoint, values["worker-key"] ?? values.key] as const
let failed = 0
try {
  for (const { requirement, run, title } of wireChecks) {
    try {
      await run({ url, key: values.key, endpoint, workerKey })
      print(`ok    ${String(requirement).padStart(2)}  ${title}`)
    } catch (error) {
      failed += 1
      print(
        `WRONG ${String(requirement).padStart(2)}  ${title}\n          ${error instanceof Error ? error.message : String(error)}`
      )
    }
  }
} finally {
  if (values.endpoint === undefined) await control("DELETE", `/${endpoint}`)
}
print(`${wireChecks.length - failed} of ${wireChecks.length} checks passed`)
process.exit(failed === 0 ? 0 : 1)
