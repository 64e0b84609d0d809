/**
 * The HTTP conformance suite: the rules of the wire, checked from outside against the real server over whatever stores are given.
 *
 * ```ts
 * suite("memory", ServerTest.layerMemory)
 * ```
 */
import { describe, layer } from "@effect/vitest"
import type * as Layer from "effect/Layer"
import { authorization } from "./auth/AuthorizationSuite.ts"
import { keys } from "./auth/KeySuite.ts"
import { rateLimits } from "./auth/RateLimitSuite.ts"
import { control } from "./control/ControlSuite.ts"
import { webhooks } from "./control/WebhookSuite.ts"
import { badInput } from "./http/BadInputSuite.ts"
import { connections } from "./http/ConnectionSuite.ts"
import { disconnects } from "./http/DisconnectSuite.ts"
import { routes } from "./http/RouteSuite.ts"
import { batches } from "./jobs/BatchSuite.ts"
import { cancelsAndRetries } from "./jobs/CancelRetrySuite.ts"
import { explanations } from "./jobs/ExplainSuite.ts"
import { events } from "./jobs/JobEventSuite.ts"
import { requests } from "./jobs/JobListSuite.ts"
import { logs } from "./jobs/LogSuite.ts"
import { statusCalls } from "./jobs/StatusSuite.ts"
import { streams } from "./jobs/StreamSuite.ts"
import { submitOptions } from "./jobs/SubmitOptionSuite.ts"
import { submits } from "./jobs/SubmitSuite.ts"
import { openAiErrors } from "./openai/OpenAiErrorSuite.ts"
import { openAiStreams } from "./openai/OpenAiStreamSuite.ts"
import { openAi } from "./openai/OpenAiSuite.ts"
import * as ServerTest from "./ServerTest.ts"
import { chunks } from "./workers/ChunkSuite.ts"
import { jobDone } from "./workers/JobDoneSuite.ts"
import { jobTakes } from "./workers/JobTakeSuite.ts"

/** Registers the suite. One server serves all tests; each test has endpoints of its own. */
export const suite = <E>(
  name: string,
  stores: Layer.Layer<ServerTest.Stores, E>,
  server: Pick<ServerTest.Options, "fastPath"> = {}
): void => {
  layer(ServerTest.layer({ ...server, stores }), { excludeTestServices: true })(`HTTP over ${name}`, (it) => {
    describe("submit", () => submits(it))
    describe("options", () => submitOptions(it))
    describe("requests", () => requests(it))
    describe("batches", () => batches(it))
    describe("events", () => events(it))
    describe("logs", () => logs(it))
    describe("explain", () => explanations(it))
    describe("follow", () => statusCalls(it))
    describe("end", () => cancelsAndRetries(it))
    describe("stream", () => streams(it))
    describe("OpenAI", () => openAi(it))
    describe("OpenAI streams", () => openAiStreams(it))
    describe("OpenAI errors", () => openAiErrors(it))
    describe("take", () => jobTakes(it))
    describe("deliver", () => jobDone(it))
    describe("chunks", () => chunks(it))
    describe("keys", () => authorization(it))
    describe("keys that are made", () => keys(it))
    describe("rate limits", () => rateLimits(it))
    describe("control API", () => control(it))
    describe("webhooks", () => webhooks(it))
    describe("bad input", () => badInput(it))
    describe("routes", () => routes(it))
    describe("connections", () => connections(it))
    describe("hanging up", () => disconnects(it))
  })
}
