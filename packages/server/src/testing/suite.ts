/**
 * The HTTP conformance suite: the rules of the wire, checked from outside against the real server over whatever stores are given.
 *
 * ```ts
 * suite("memory", ServerTest.layerMemory)
 * ```
 */
import { describe, layer } from "@effect/vitest"
import type * as Layer from "effect/Layer"
import { authorization } from "./AuthorizationSuite.ts"
import { badInput } from "./BadInputSuite.ts"
import { batches } from "./BatchSuite.ts"
import { chunks } from "./ChunkSuite.ts"
import { connections } from "./ConnectionSuite.ts"
import { control } from "./ControlSuite.ts"
import { deliveries } from "./DeliverSuite.ts"
import { disconnects } from "./DisconnectSuite.ts"
import { ends } from "./EndSuite.ts"
import { events } from "./EventSuite.ts"
import { explanations } from "./ExplainSuite.ts"
import { follows } from "./FollowSuite.ts"
import { keys } from "./KeySuite.ts"
import { logs } from "./LogSuite.ts"
import { openAiErrors } from "./OpenAiErrorSuite.ts"
import { openAiStreams } from "./OpenAiStreamSuite.ts"
import { openAi } from "./OpenAiSuite.ts"
import { options } from "./OptionSuite.ts"
import { rateLimits } from "./RateLimitSuite.ts"
import { requests } from "./RequestSuite.ts"
import { routes } from "./RouteSuite.ts"
import * as ServerTest from "./ServerTest.ts"
import { streams } from "./StreamSuite.ts"
import { submits } from "./SubmitSuite.ts"
import { takes } from "./TakeSuite.ts"
import { webhooks } from "./WebhookSuite.ts"

/** Registers the suite. One server serves all tests; each test has endpoints of its own. */
export const suite = <E>(
  name: string,
  stores: Layer.Layer<ServerTest.Stores, E>,
  server: Pick<ServerTest.Options, "shortWay"> = {}
): void => {
  layer(ServerTest.layer({ ...server, stores }), { excludeTestServices: true })(`HTTP over ${name}`, (it) => {
    describe("submit", () => submits(it))
    describe("options", () => options(it))
    describe("requests", () => requests(it))
    describe("batches", () => batches(it))
    describe("events", () => events(it))
    describe("logs", () => logs(it))
    describe("explain", () => explanations(it))
    describe("follow", () => follows(it))
    describe("end", () => ends(it))
    describe("stream", () => streams(it))
    describe("OpenAI", () => openAi(it))
    describe("OpenAI streams", () => openAiStreams(it))
    describe("OpenAI errors", () => openAiErrors(it))
    describe("take", () => takes(it))
    describe("deliver", () => deliveries(it))
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
