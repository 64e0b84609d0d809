/**
 * A real worker process, killed with SIGKILL before and after each record of a run is stored. The platform is a small server over the journal in
 * memory.
 */
import { RunJournalRequest } from "@stint/contract/RunJournal"
import { workerEnvironment } from "@stint/contract/WorkerProtocol"
import { WorkerProcess } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { createServer } from "node:http"
import type { IncomingMessage, ServerResponse } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, it } from "vitest"
import * as JournalMemory from "../src/JournalMemory.ts"

const decode = Schema.decodeUnknownSync(Schema.fromJsonString(RunJournalRequest))

const RUN = "run-1"

const bodyOf = async (request: IncomingMessage) => {
  let text = ""
  for await (const chunk of request) text += String(chunk)
  return text
}

it("begins no recorded step again when the worker is killed at each record of the run", { timeout: 300_000 }, async () => {
  const folder = await mkdtemp(join(tmpdir(), "stint-killed-"))
  const steps = join(folder, "steps")
  const scope = Scope.makeUnsafe()
  const memory = await Effect.runPromise(
    Effect.provideService(
      JournalMemory.make({ parks: true, spawn: () => Effect.succeed({ status: "COMPLETED", output: 1 }) }),
      Scope.Scope,
      scope
    )
  )
  await Effect.runPromise(memory.event("event", "", "a"))

  let attempt = 0
  let worker: WorkerProcess.WorkerProcess | undefined
  /** The response of a take that waits for the run. */
  let taking: ServerResponse | undefined
  let isReady = true
  const boundaries = new Set<string>()
  const delivered: Array<string> = []

  const hand = () => {
    if (!isReady || taking === undefined) return
    isReady = false
    attempt++
    taking.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ id: RUN, input: 1, attempt }))
    taking = undefined
  }
  const kill = (socket: ServerResponse) => {
    worker?.kill("SIGKILL")
    socket.destroy()
  }
  /** Whether the request contains a record at which the worker has not been killed yet at this moment. Marks the first one. */
  const next = (request: RunJournalRequest, when: string) => {
    for (const { kind, path } of request.runs.flatMap(({ records = [] }) => records)) {
      const key = `${when} ${kind} ${path}`
      if (boundaries.has(key)) continue
      boundaries.add(key)
      return true
    }
    return false
  }

  const journal = async (text: string, response: ServerResponse) => {
    const request = decode(text)
    if (next(request, "before")) return kill(response)
    const runs = await Effect.runPromise(
      Effect.forEach(
        request.runs,
        (write) => memory.journal.write(write, { hash: "", graph: { name: "", nodes: [] }, undo: true })
      )
    )
    if (runs.some(({ state }) => state === "parked")) {
      Effect.runFork(Effect.map(memory.awake(RUN), () => {
        isReady = true
        hand()
      }))
    }
    if (next(request, "after")) return kill(response)
    response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify({ now: 0, runs }))
  }

  const serve = async (request: IncomingMessage, response: ServerResponse) => {
    const url = new URL(request.url ?? "", "http://platform.test")
    const route = url.pathname.split("/")[3]
    const text = await bodyOf(request)
    if (route === "job-take-batch") return response.writeHead(404).end()
    if (route === "job-take") {
      taking = response
      return hand()
    }
    if (route === "run-journal") return journal(text, response)
    if (route === "job-stream") {
      const chunks = memory.chunks(RUN)
      const body: unknown = JSON.parse(text)
      if (Number(url.searchParams.get("chunk")) === chunks.length + 1) {
        await Effect.runPromise(memory.journal.chunk?.({ id: RUN, input: null }, body, chunks.length + 1) ?? Effect.void)
      }
    }
    if (route === "job-done") delivered.push(text)
    // A poll for stops stays open until the worker ends.
    if (route !== "job-stop") response.writeHead(200, { "content-type": "application/json" }).end("{}")
  }

  const server = createServer((request, response) => void serve(request, response).catch(() => response.destroy()))
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  const env = {
    ...workerEnvironment({
      baseUrl: `http://127.0.0.1:${port}`,
      endpoint: "killed",
      worker: "w1",
      key: "key",
      pingIntervalMs: 60_000,
      prefix: "PLATFORM_"
    }),
    STEPS: steps
  }

  const outputs: Array<string> = []
  try {
    const end = Effect.runPromise(memory.ended(RUN)).then((result) => {
      worker?.kill("SIGKILL")
      return result
    })
    while (!memory.isEnded(RUN)) {
      worker = WorkerProcess.start(join(import.meta.dirname, "fixtures/killed.ts"), { env })
      const { stderr, stdout } = await worker.ended
      outputs.push(stdout + stderr)
      // The lease of a killed worker expires, and the run returns to the queue unless it was parked.
      taking = undefined
      const isParked = !memory.isAwake(RUN)
      if (!isParked) isReady = true
    }
    const result = await end
    expect(delivered, outputs.join("\n")).toEqual([])
    expect(result).toEqual({ status: "FAILED", error: "The step \"last\" failed: no ab" })
    // Every kind of record, before and after.
    const kinds = new Set([...boundaries].map((key) => key.split(" ").slice(0, 2).join(" ")))
    for (const kind of ["step", "failed", "choice", "spawn", "sleep", "wait", "undo"]) {
      expect([...kinds]).toContain(`before ${kind}`)
      expect([...kinds]).toContain(`after ${kind}`)
    }
    expect(memory.chunks(RUN)).toEqual([{ output: "a" }, { output: "b" }])
    const begun = (await readFile(steps, "utf8")).trim().split("\n")
    const count = (path: string) => begun.filter((one) => one === path).length
    // Each step begins again after its record was lost, and never after it was recorded.
    for (const path of ["list", "each[0]", "words", "last#1", "last#2", "child~undo", "list~undo"]) {
      expect([path, count(path)]).toEqual([path, 2])
    }
    expect(begun.slice(-4)).toEqual(["child~undo", "child~undo", "list~undo", "list~undo"])
  } finally {
    worker?.kill("SIGKILL")
    server.closeAllConnections()
    server.close()
    await Effect.runPromise(Scope.close(scope, Exit.void))
    await rm(folder, { recursive: true, force: true })
  }
})
