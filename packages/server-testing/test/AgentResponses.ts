/**
 * Tests the responses of a server that has agents.
 */
import { expect, layer } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { type Agent, AGENT_PROTOCOL, AgentName, MAX_REPORT_BYTES } from "@stint/contract/Agent"
import { AgentRefused, Agents } from "@stint/pool/Agents"
import * as PayloadMemoryBudget from "@stint/store/PayloadMemoryBudget"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ServerTest from "../src/ServerTest.ts"
import { expectJson } from "../src/WireClient.ts"

const CAPACITY = { workers: 4, cpus: 2, memoryBytes: 1_000_000_000, gpus: 0 }

const AGENT: Agent = {
  name: AgentName.make("render-1"),
  state: "connected",
  since: 1_790_000_000_000,
  lastSeenAt: 1_790_000_001_000,
  version: "0.1.0",
  capacity: CAPACITY,
  supports: ["handler"],
  volumes: [],
  labels: { gpu: "a100" },
  key: "0123456789abcdef",
  endpoints: "all",
  workers: []
}

const REPORT = {
  protocol: AGENT_PROTOCOL,
  version: "0.1.0",
  instance: "folder-1",
  run: "run-1",
  number: 1,
  capacity: CAPACITY,
  supports: ["handler"],
  volumes: [],
  isDrained: false,
  isLeaving: false,
  workers: []
}

const refused = new AgentRefused({ problem: "The epoch is over.", hint: "Join again." })

/** Knows one agent. Refuses reports and waits with the epoch "over", and has no code. */
const layerAgents = Layer.succeed(Agents, {
  list: Effect.succeed({ agents: [AGENT], local: { workers: 0, limit: null, labels: {} } }),
  drain: (name) => name === AGENT.name ? Effect.succeedSome({ agent: AGENT, workers: [] }) : Effect.succeedNone,
  resume: (name) => name === AGENT.name ? Effect.succeedSome(AGENT) : Effect.succeedNone,
  report: (_, __, { epoch }) =>
    epoch === "over" ? Effect.fail(refused) : Effect.succeed({
      orders: { platform: "p", epoch: "e", leaseMs: 10_000, revision: 1, at: 1_790_000_000_000, isDrained: false, workers: [] },
      leaving: []
    }),
  changes: (_, __, epoch) => epoch === "over" ? Effect.fail(refused) : Effect.succeed({ revision: 2 }),
  code: (_, __, hash) => hash === "known" ? Effect.succeed({ files: { "main.mjs": Buffer.from("1") } }) : Effect.fail(refused),
  completeWaits: Effect.void
})

/** Registers the tests. */
export const agentResponses = (): void => {
  const memory = PayloadMemoryBudget.make(1)
  layer(
    ServerTest.layer().pipe(
      Layer.provide(layerAgents),
      Layer.provide(Layer.succeed(PayloadMemoryBudget.PayloadMemoryBudget, memory))
    ),
    { excludeTestServices: true }
  )("agents", (it) => {
    it.effect("are listed, drained and resumed by operators", () =>
      Effect.gen(function*() {
        const { call } = yield* ServerTest.ServerTest
        expect((yield* call("/api/v1/agents")).json).toMatchObject({ agents: [AGENT] })
        for (const verb of ["drain", "resume"]) {
          expect((yield* call(`/api/v1/agents/${AGENT.name}/${verb}`, { method: "POST" })).json).toEqual(AGENT)
          expect((yield* call(`/api/v1/agents/unknown/${verb}`, { method: "POST" })).status).toBe(404)
        }
      }))

    it.effect("report, wait and download with a key of the scope agent", () =>
      Effect.gen(function*() {
        const { call } = yield* ServerTest.ServerTest
        const created = yield* call("/api/v1/keys", { json: { name: "machines", endpoints: "all", scopes: ["agent"] } })
        const { secret: authorization } = yield* expectJson(201, NewKey)(created)
        const path = `/api/v1/agents/${AGENT.name}`
        const report = (json: unknown, headers = {}) => call(`${path}/report`, { json, authorization, headers })
        const statusOf = (request: ReturnType<typeof call>) => Effect.map(request, ({ status }) => status)

        expect((yield* report(REPORT)).json).toMatchObject({ epoch: "e", workers: [] })
        expect(yield* statusOf(report({ ...REPORT, epoch: "over" }))).toBe(409)
        expect(yield* statusOf(report({ ...REPORT, number: -1 }))).toBe(400)
        // The platform's log and `stint agents` show them.
        expect(yield* statusOf(report({ ...REPORT, version: "1)\n2026-01-01T00:00:00Z INFO  forged" }))).toBe(400)
        expect(yield* statusOf(report({ ...REPORT, volumes: ["a\u001b[2Jb"] }))).toBe(400)
        expect(yield* statusOf(report(REPORT, { "content-encoding": "br" }))).toBe(415)
        expect(yield* statusOf(report("x".repeat(MAX_REPORT_BYTES)))).toBe(413)
        const full = yield* Effect.scoped(Effect.andThen(
          memory.reserve(1),
          report("x".repeat(MAX_REPORT_BYTES - 2))
        ))
        expect(full.status).toBe(503)
        expect(full.headers.get("retry-after")).toBe("1")

        const changes = (epoch: string) => call(`${path}/changes?epoch=${epoch}&revision=1`, { authorization })
        expect((yield* changes("e")).json).toEqual({ revision: 2 })
        expect(yield* statusOf(changes("over"))).toBe(409)
        const code = (hash: string) => call(`${path}/code/${hash}`, { authorization })
        expect((yield* code("known")).json).toEqual({ files: { "main.mjs": "MQ==" } })
        expect(yield* statusOf(code("unknown"))).toBe(409)
      }))
  })
}
