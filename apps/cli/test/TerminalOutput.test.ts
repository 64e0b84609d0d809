/**
 * What the CLI prints when the platform's answers contain control characters: every command against a server that puts them into each text.
 */
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import * as Effect from "effect/Effect"
import { createServer, type Server } from "node:http"
import type { AddressInfo } from "node:net"
import process from "node:process"
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest"
import * as LogFormat from "../src/output/LogFormat.ts"
import { type Finished, runCommand } from "./CommandInProcess.ts"

/** Sets the terminal's title, in both encodings of the sequence, clears the screen, reverses text, and forges a line. */
const HOSTILE = "\u001b]0;title\u0007 \u009d0;title\u009c \u001b[2J \r\u202e over\n2026-11-22T12:00:00Z INFO   forged"

const job = { id: HOSTILE, status: "FAILED", workerId: HOSTILE, error: HOSTILE, output: { text: HOSTILE }, delayTime: 1 }
const line = { number: 1, time: 0, level: "INFO", message: HOSTILE, attempt: 1, source: "log", workerId: HOSTILE }
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
    { path: "charge", kind: "step", state: "failed", error: HOSTILE },
    { path: "ship", kind: "step", state: "completed", output: HOSTILE }
  ]
}

const ANSWERS: Readonly<Record<string, unknown>> = {
  "/v2/e/run": { id: HOSTILE, status: "IN_QUEUE" },
  "/v2/e/requests": listed,
  "/v2/e/status/j": job,
  "/v2/e/logs/j": { lines: [line], cursor: 1, more: false },
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
  { args: ["pipelines", "steps", "e", "j"], code: 0 },
  { args: ["pipelines", "graph", "e", "j"], code: 0 },
  { args: ["pipelines", "event", "e", "approved"], code: 0 },
  { args: ["batch", "list", "e"], code: 0 },
  { args: ["batch", "list", "e", "--json"], code: 0 },
  { args: ["batch", "status", "e", "batch_1"], code: 0 }
]

const expectHarmless = (printed: string, label: string) => {
  expect(printed, label).toContain("forged")
  expect(printed.replaceAll("\n", ""), label).not.toMatch(/[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u)
  expect(printed, label).not.toMatch(/^2026-11-22T12:00:00Z/m)
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

  it("prints no control character and no forged line, whatever the platform answers", async () => {
    const results: Array<Finished & { readonly command: (typeof COMMANDS)[number] }> = []
    for (const command of COMMANDS) results.push({ command, ...(await runCommand(command.args, { env })) })
    for (const { code, command, stderr, stdout } of results) {
      const printed = stdout + stderr
      const label = command.args.join(" ")
      expect(code, `${label}\n${printed}`).toBe(command.code)
      expectHarmless(printed, label)
    }
    const json = results.filter(({ code, command }) => code === 0 && command.args.includes("--json"))
    expect(json.map(({ stdout }) => JSON.parse(stdout))).toEqual([job, line, [batch]])
  })
})
