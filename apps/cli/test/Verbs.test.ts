/**
 * The command line covers the whole API: every operation has a command, and every option of an operation has a flag.
 *
 * Runs each command against a server that records the requests, and compares them with the OpenAPI document.
 */
import * as Predicate from "effect/Predicate"
import { readFile, rm } from "node:fs/promises"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import { resolve } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { runCommand } from "./CommandInProcess.ts"
import { batch, COMMANDS, makeFiles, operations, RESPONSES, STATUSES } from "./VerbCalls.ts"

/** Operations without a command, with the reason. */
const WITHOUT_COMMAND: Readonly<Record<string, string>> = {
  "builds.buildHook": "Git hosts call it",
  "jobs.runsync": "`run --sync` submits and then waits, so that it can show the id before it waits",
  "jobs.statusByPost": "another method of `status`",
  "jobs.statusSyncByPost": "another method of `statusSync`",
  "jobs.streamByPost": "another method of `stream`"
}

/** Options without a flag, with the reason. */
const WITHOUT_FLAG: Readonly<Record<string, string>> = {
  "batches.createBatch requests": "`batch create` adds the requests in calls of limited size",
  "events.streamEvents lastEventId": "`events` continues by itself after a lost connection"
}

/** The paths of a body's leaves, and of the objects that contain them. */
const sentIn = (value: unknown, path = ""): ReadonlyArray<string> =>
  Predicate.isObject(value) && !Array.isArray(value)
    ? [path, ...Object.entries(value).flatMap(([name, one]) => sentIn(one, path === "" ? name : `${path}.${name}`))]
    : [path]

describe("the command line", () => {
  let server: Server
  let folder: string
  /** The options that were sent to each operation. */
  const sent = new Map<string, Set<string>>()

  beforeAll(async () => {
    server = createServer((request, response) => {
      const chunks: Array<Buffer> = []
      request.on("data", (chunk: Buffer) => chunks.push(chunk))
      request.on("end", () => {
        const url = new URL(request.url ?? "/", "http://localhost")
        const operation = operations.find(({ method, path }) => method === request.method && path.test(url.pathname))
        if (operation === undefined) return void response.writeHead(500).end()
        const text = Buffer.concat(chunks).toString()
        const options = [...url.searchParams.keys(), ...(text === "" ? [] : sentIn(JSON.parse(text)))]
        sent.set(operation.id, new Set([...sent.get(operation.id) ?? [], ...options]))
        const status = STATUSES[operation.id] ?? 200
        response.writeHead(status, { "content-type": "application/json" })
        response.end(status === 204 ? undefined : JSON.stringify(RESPONSES[operation.id] ?? batch))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    const files = await makeFiles()
    folder = files.folder
    const env = { STINT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, STINT_API_KEY: "sixteen-characters" }
    for (const args of COMMANDS) {
      const { code, stderr } = await runCommand(files.withPaths(args), { env })
      if (code !== 0) throw new Error(`stint ${args.join(" ")}\n${stderr}`)
    }
  })
  afterAll(async () => {
    await new Promise((resolve) => server.close(resolve))
    await rm(folder, { recursive: true, force: true })
  })

  it("has a command for every operation of the jobs API and the control API", () => {
    expect(operations.length).toBeGreaterThan(40)
    const missing = operations.map(({ id }) => id).filter((id) => !sent.has(id) && !(id in WITHOUT_COMMAND))
    expect(missing).toEqual([])
    expect(Object.keys(WITHOUT_COMMAND).filter((id) => !operations.some((one) => one.id === id) || sent.has(id))).toEqual([])
  })

  it("has every command in the reference", async () => {
    const page = await readFile(resolve(import.meta.dirname, "../../../docs/reference/cli.md"), "utf8")
    const groups = ["jobs", "pipelines", "batch", "endpoints", "keys", "webhooks", "models", "alerts", "schedules", "workers"]
    const verbs = COMMANDS.map(([first = "", second = ""]) =>
      groups.includes(first) ? `stint ${first} ${second}` : `stint ${first}`
    )
    expect([...new Set(verbs)].filter((verb) => !page.includes(`\`${verb}\``))).toEqual([])
  })

  it("has a flag for every option of every operation", () => {
    const missing = operations.filter(({ id }) => sent.has(id)).flatMap(({ id, options }) =>
      [...options].filter((option) => !sent.get(id)?.has(option)).map((option) => `${id} ${option}`)
    )
    expect(missing).toEqual(Object.keys(WITHOUT_FLAG))
  })
})
