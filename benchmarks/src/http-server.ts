/**
 * The measured server, a separate process. The first argument selects `echo`, or the platform over `memory`, `D1` or `D2`.
 *
 * The process sends its address, then replies to each message with its CPU time in microseconds. The platform is the complete one that the
 * CLI composes, with external endpoints.
 */
import * as Platform from "@stint/cli/Platform"
import * as PlatformConfig from "@stint/cli/PlatformConfig"
import { EndpointSpec } from "@stint/contract/Endpoint"
import { AccessKeys, secretsOf } from "@stint/server/AccessKeys"
import * as Server from "@stint/server/Server"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import process from "node:process"
import { KEY } from "./BenchmarkPlatform.ts"
import { type Listening, Operation } from "./HttpMessages.ts"

const [kind = "echo"] = process.argv.slice(2)

const isListening = (address: AddressInfo | string | null): address is AddressInfo =>
  typeof address === "object" && address !== null

const announce = (listening: Listening) => {
  process.on("message", () => {
    const { system, user } = process.cpuUsage()
    process.send?.({ user, system })
  })
  process.send?.(listening)
}

/** Reads and parses the body, and sends a response of the same size as `/run`. */
const echo = () => {
  const server = createServer((request, response) => {
    let text = ""
    request.setEncoding("utf8")
    request.on("data", (data: string) => {
      text += data
    })
    request.on("end", () => {
      const body: unknown = JSON.parse(text)
      const answer = JSON.stringify({ id: "0f8fad5b-d9cb-469f-a165-70867728950e", status: body === null ? "EMPTY" : "IN_QUEUE" })
      response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(answer) })
      response.end(answer)
    })
  })
  server.listen(0, "127.0.0.1", () => {
    const address = server.address()
    if (isListening(address)) {
      announce({ baseUrl: `http://127.0.0.1:${address.port}`, workerKeys: { run: "", runsync: "", ping: "" } })
    }
  })
}

const decodeSpec = Schema.decodeUnknownSync(EndpointSpec)

const platform = (store: "memory" | "D1" | "D2") => {
  const layer = Layer.unwrap(Effect.map(PlatformConfig.load, (settings) =>
    Platform.layer({
      settings,
      secrets: secretsOf(Redacted.make(KEY)),
      store: store === "memory" ? store : { durability: store },
      dataDir: settings.dataDir,
      endpoints: Operation.literals.map((id) => decodeSpec({ id, source: { type: "external" } }))
    })))
  const ready = Layer.effectDiscard(Effect.gen(function*() {
    const keys = yield* AccessKeys
    const workerKey = (endpoint: string) => Redacted.value(keys.workerKey(endpoint))
    announce({
      baseUrl: yield* Server.baseUrl,
      workerKeys: { run: workerKey("run"), runsync: workerKey("runsync"), ping: workerKey("ping") }
    })
  }))
  Effect.runFork(Layer.launch(ready.pipe(Layer.provide(layer))))
}

if (kind === "memory" || kind === "D1" || kind === "D2") platform(kind)
else echo()
process.once("disconnect", () => process.exit())
