/**
 * What the CLI prints when the platform's responses contain control characters: every command against a server that puts them into each text.
 */
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import * as Effect from "effect/Effect"
import { rm } from "node:fs/promises"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import process from "node:process"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import * as LogFormat from "../src/output/LogFormat.ts"
import { type Finished, runCommand } from "./CommandInProcess.ts"
import { HOSTILE, HOSTILE_ANSWERS } from "./HostileAnswers.ts"
import { COMMANDS as EVERY_COMMAND, makeFiles, operations, STATUSES } from "./VerbCalls.ts"

const job = { id: HOSTILE, status: "FAILED", workerId: HOSTILE, error: HOSTILE, output: { text: HOSTILE }, delayTime: 1 }
const line = { number: 1, time: 0, level: "INFO", message: HOSTILE, attempt: 1, source: "log", workerId: HOSTILE, step: HOSTILE }
const batch = {
  id: HOSTILE,
  endpointId: HOSTILE,
  status: "COMPLETED",
  requestTotal: 1,
  requestInProgress: 0,
  requestCompleted: 1,
  requestFailed: 0,
  requestCancelled: 0,
  createdAt: 0,
  name: HOSTILE
}

const listed = {
  requests: [{ id: HOSTILE, status: "FAILED", createdAt: 0, attempt: 1, priority: 0, tags: [HOSTILE], error: HOSTILE }],
  cursor: HOSTILE
}

const steps = {
  run: HOSTILE,
  status: "IN_PROGRESS",
  phase: "doing",
  definition: "a".repeat(64),
  held: HOSTILE,
  steps: [
    { path: HOSTILE, kind: "run", state: "open", job: HOSTILE, endpoint: HOSTILE },
    { path: "approve", kind: "waitFor", state: "open", event: { name: HOSTILE, key: HOSTILE } },
    {
      path: "charge",
      kind: "step",
      state: "failed",
      error: HOSTILE,
      input: { text: HOSTILE },
      attempts: [{ attempt: 1, state: "failed", error: HOSTILE, job: HOSTILE }]
    },
    { path: "ship", kind: "step", state: "completed", input: { from: ["charge", HOSTILE] }, output: HOSTILE }
  ]
}

const ANSWERS: Readonly<Record<string, unknown>> = {
  "/v2/e/run": { id: HOSTILE, status: "IN_QUEUE" },
  "/v2/e/requests": listed,
  "/v2/e/status/j": job,
  "/v2/e/logs/j": { lines: [line], cursor: 1, more: false },
  "/v2/e/logs": { lines: [{ job: HOSTILE, ...line }], cursor: HOSTILE, stopped: "lines", searched: 1, oldest: 0 },
  "/v2/e/steps/j": steps,
  [`/v2/e/definitions/${"a".repeat(64)}`]: {
    name: HOSTILE,
    nodes: [{ address: HOSTILE, kind: HOSTILE, endpoint: HOSTILE }, {
      address: "ship",
      kind: "step",
      label: HOSTILE,
      needs: [HOSTILE]
    }]
  },
  "/v2/e/definitions": { definitions: [{ hash: "a".repeat(64), definedAt: 0, open: 1, held: 1 }] },
  "/v2/e/events": { delivered: HOSTILE },
  "/v2/e/batch": [batch],
  "/v2/e/batch/batch_1": batch
}

const NOT_FOUND = {
  type: "/problems/job-not-found",
  status: 404,
  title: "Job not found",
  detail: HOSTILE,
  error: HOSTILE,
  hint: HOSTILE
}

/** Every operation declares it. */
const UNAUTHORIZED = { ...NOT_FOUND, type: "/problems/unauthorized", status: 401, title: "Unauthorized" }

const COMMANDS: ReadonlyArray<{ readonly args: ReadonlyArray<string>; readonly code: number }> = [
  { args: ["status", "e", "j"], code: 0 },
  { args: ["status", "e", "j", "--json"], code: 0 },
  { args: ["status", "e", "missing"], code: 1 },
  { args: ["status", "e", "missing", "--json"], code: 1 },
  { args: ["status", "e", "j", "--wait"], code: 1 },
  { args: ["run", "e", "--input", "1"], code: 0 },
  { args: ["run", "e", "--input", "1", "--sync"], code: 1 },
  { args: ["jobs", "list", "e"], code: 0 },
  { args: ["logs", "e", "j"], code: 0 },
  { args: ["logs", "e", "j", "--json"], code: 0 },
  { args: ["logs", "e"], code: 0 },
  { args: ["logs", "e", "--json"], code: 0 },
  { args: ["pipelines", "steps", "e", "j"], code: 0 },
  { args: ["pipelines", "steps", "e", "j", "--step", "charge"], code: 0 },
  { args: ["pipelines", "steps", "e", "j", "--step", "ship"], code: 0 },
  { args: ["pipelines", "steps", "e", "j", "--step", HOSTILE], code: 0 },
  { args: ["pipelines", "graph", "e", "j"], code: 0 },
  { args: ["pipelines", "graph", "e", "j", "--svg", "-"], code: 0 },
  { args: ["pipelines", "show", "e"], code: 0 },
  { args: ["pipelines", "run", "e", "--input", "1"], code: 1 },
  { args: ["pipelines", "event", "e", "approved"], code: 0 },
  { args: ["batch", "list", "e"], code: 0 },
  { args: ["batch", "list", "e", "--json"], code: 0 },
  { args: ["batch", "status", "e", "batch_1"], code: 0 }
]

/** Whether a text contains no control character but line feeds, and no forged line. */
const isPrintable = (printed: string): boolean =>
  !/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u.test(printed.replaceAll("\n", "")) && !/^2026-11-22T12:00:00Z/m.test(printed)

const expectHarmless = (printed: string, label: string) => {
  expect(printed, label).toContain("forged")
  expect(isPrintable(printed), `${label}\n${printed}`).toBe(true)
}

describe("the platform's log", () => {
  it("escapes events, their annotations and workers' lines, and removes colours", async () => {
    let printed = ""
    const write = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
      printed += String(text)
      return true
    })
    try {
      await Effect.runPromise(
        Effect.logWarning(`Worker ${HOSTILE} is unhealthy.`).pipe(
          Effect.annotateLogs("reason", HOSTILE),
          Effect.provide(LogFormat.layer)
        )
      )
      const parsed = { job: HOSTILE, level: "INFO", source: "stdout", message: `\u001b[32m${HOSTILE}\u001b[0m` } as const
      for (const isLogged of [true, false]) {
        LogFormat.writeWorkerLine({ endpoint: EndpointId.make("e"), worker: WorkerId.make("w"), text: HOSTILE }, {
          ...parsed,
          isLogged
        })
      }
    } finally {
      write.mockRestore()
    }
    expectHarmless(printed, "log")
    expect(printed).not.toContain("[32m")
  })
})

describe("stint", () => {
  let server: Server
  let env: Record<string, string>

  beforeAll(async () => {
    server = createServer((request, response) => {
      const answer = ANSWERS[(request.url ?? "").split("?", 1)[0] ?? ""]
      response.writeHead(answer === undefined ? 404 : 200, { "content-type": "application/json" })
      response.end(JSON.stringify(answer ?? NOT_FOUND))
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    env = { STINT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, STINT_API_KEY: "sixteen-characters" }
  })
  afterAll(() => new Promise((resolve) => server.close(resolve)))

  it("prints no control character and no forged line, whatever the platform's response", async () => {
    const results: Array<Finished & { readonly command: (typeof COMMANDS)[number] }> = []
    for (const command of COMMANDS) results.push({ command, ...(await runCommand(command.args, { env })) })
    for (const { code, command, stderr, stdout } of results) {
      const printed = stdout + stderr
      const label = command.args.join(" ")
      expect(code, `${label}\n${printed}`).toBe(command.code)
      expectHarmless(printed, label)
    }
    const json = results.filter(({ code, command }) => code === 0 && command.args.includes("--json"))
    expect(json.map(({ stdout }) => JSON.parse(stdout))).toEqual([job, line, { job: HOSTILE, ...line }, [batch]])
  })
})

describe("every command", () => {
  /** The platform's responses: hostile text as the contract accepts it, responses that break the contract, or errors. */
  const KINDS = ["accepted", "broken", "error"] as const
  let kind: (typeof KINDS)[number] = "accepted"
  let server: Server
  let env: Record<string, string>

  beforeAll(async () => {
    server = createServer((request, response) => {
      request.resume()
      const { pathname } = new URL(request.url ?? "/", "http://localhost")
      const id = operations.find(({ method, path }) => method === request.method && path.test(pathname))?.id ?? ""
      const answers = HOSTILE_ANSWERS.get(id)
      const isError = kind === "error" || answers === undefined
      const status = isError ? UNAUTHORIZED.status : STATUSES[id] ?? 200
      if (id === "jobs.events" && !isError) {
        response.writeHead(200, { "content-type": "text/event-stream" })
        const end = { ...job, error: HOSTILE }
        const chunk = { attempt: 1, number: 1, output: HOSTILE }
        const events: ReadonlyArray<readonly [string, unknown]> = [
          ["status", { id: HOSTILE, status: "IN_PROGRESS", attempt: 1 }],
          ["log", line],
          ["chunk", chunk],
          [
            "end",
            end
          ]
        ]
        return void response.end(
          events.map(([event, data], at) => `id: ${at}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join("")
        )
      }
      response.writeHead(status, { "content-type": "application/json" })
      response.end(
        status === 204
          ? undefined
          : JSON.stringify(isError ? UNAUTHORIZED : kind === "broken" ? answers.broken : answers.accepted)
      )
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    env = { STINT_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, STINT_API_KEY: "sixteen-characters" }
  })
  afterAll(() => new Promise((resolve) => server.close(resolve)))

  it.each(
    [
      ["text that the contract accepts", "accepted", 40],
      ["text that breaks the contract", "broken", 1],
      ["an error", "error", 75]
    ] as const
  )("prints no control character and no forged line when the platform responds with %s", async (_, answers, shown) => {
    kind = answers
    const { folder, withPaths } = await makeFiles()
    const unsafe: Array<string> = []
    let seen = 0
    try {
      for (const args of EVERY_COMMAND) {
        for (const command of answers === "accepted" ? [args, [...args, "--json"]] : [args]) {
          // A command may wait for a state that no response has.
          const until = Date.now() + 2_000
          const { stderr, stdout } = await runCommand(withPaths(command), { env, interruptWhen: () => Date.now() > until })
          const printed = stdout + stderr
          if (!isPrintable(printed)) unsafe.push(`stint ${command.join(" ")}\n${JSON.stringify(printed)}`)
          if (command === args && printed.includes("forged")) seen += 1
        }
      }
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
    expect(unsafe).toEqual([])
    expect(seen).toBeGreaterThanOrEqual(shown)
  }, 60_000)

  it("is tested with hostile text in most strings of the platform's responses", () => {
    const totals = [...HOSTILE_ANSWERS.values()]
    const sum = (of: "hostile" | "strings") => totals.reduce((total, one) => total + one[of], 0)
    expect(sum("strings")).toBeGreaterThan(300)
    expect(sum("hostile")).toBeGreaterThan(sum("strings") / 2)
  })
})
