/**
 * Reads the definition from a pipeline's handler before the pipeline is deployed.
 *
 * ```
 *   the handler runs as a worker of a server in this process --run-journal, definitions--> the graph; the worker is ended
 *                                                            --job-take------------------> no job
 * ```
 *
 * The handler itself sends the definition, because its code creates it and its file need not export it. It receives no job, so none of its steps
 * runs.
 */
import type { EndpointSpec } from "@stint/contract/Endpoint"
import { PipelineGraph } from "@stint/contract/RunJournal"
import { workerEnvironment } from "@stint/contract/WorkerProtocol"
import { inheritedEnvironment } from "@stint/pool-process/InheritedEnvironment"
import * as StintPackages from "@stint/pool-process/StintPackages"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type ChildProcess, spawn } from "node:child_process"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import { dirname } from "node:path"
import process from "node:process"
import { CliFailure } from "../CliFailure.ts"

/** How long a handler may take to send its definition. Handlers with models or databases start slowly. */
const LIMIT = "30 seconds"

/** The maximum number of bytes of a worker's call, and of the output that is kept for a message. */
const MOST_BYTES = 4 * 1024 * 1024
const MOST_OUTPUT = 2_000

/** How long the worker may take to end before it is killed. */
const GRACE = 2_000

const Announcement = Schema.fromJsonString(
  Schema.Struct({ definitions: Schema.Array(Schema.Struct({ graph: PipelineGraph })) })
)
const decodeAnnouncement = Schema.decodeUnknownOption(Announcement)

const textOf = async (request: IncomingMessage): Promise<string> => {
  const parts: Array<Buffer> = []
  let size = 0
  for await (const part of request) {
    const bytes = Buffer.from(part)
    size += bytes.length
    if (size > MOST_BYTES) break
    parts.push(bytes)
  }
  return Buffer.concat(parts).toString("utf8")
}

const failed = (id: string, message: string) =>
  new CliFailure({
    message: `The definition of "${id}" is unknown: ${message}`,
    hint: "Start the handler with `stint dev` to see why.",
    code: "no-definition"
  })

/** A server without jobs that completes `found` with the first definition that a worker sends. */
const serve = (found: Deferred.Deferred<PipelineGraph, CliFailure>) => {
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const text = await textOf(request)
    const { pathname } = new URL(request.url ?? "/", "http://localhost")
    if (pathname.includes("/run-journal/")) {
      const [sent] = decodeAnnouncement(text).pipe((option) => option._tag === "Some" ? option.value.definitions : [])
      if (sent !== undefined) Deferred.doneUnsafe(found, Effect.succeed(sent.graph))
    }
    // Responds after a while, like a platform without jobs. After an immediate response, the worker would poll in a busy loop.
    if (pathname.includes("/job-take")) return
    response.writeHead(200, { "content-type": "application/json" }).end("{\"now\":0,\"runs\":[],\"jobsToStop\":[]}")
  }
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy())
  })
  return Effect.acquireRelease(
    Effect.callback<Server, CliFailure>((resume) => {
      server.once("error", ({ message }) => resume(Effect.fail(new CliFailure({ message, hint: "" }))))
      server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
    }),
    () =>
      Effect.sync(() => {
        server.closeAllConnections()
        server.close()
      })
  )
}

/** Ends a process, and waits until it has ended. */
const end = (child: ChildProcess) =>
  Effect.callback<void>((resume) => {
    if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return resume(Effect.void)
    const timer = setTimeout(() => child.kill("SIGKILL"), GRACE)
    child.once("exit", () => {
      clearTimeout(timer)
      resume(Effect.void)
    })
    child.kill("SIGTERM")
  })

/** The definition of an endpoint whose handler is a file on this machine. Starts the handler as a worker without jobs. */
export const graphOf = Effect.fn("DefinitionProbe.graphOf")(
  function*({ env, id, source }: EndpointSpec) {
    if (source.type !== "handler") {
      return yield* failed(
        id,
        `only handler files can be started for a comparison, and the endpoint's source is "${source.type}".`
      )
    }
    const found = yield* Deferred.make<PipelineGraph, CliFailure>()
    const server = yield* serve(found)
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    const nodeOptions = StintPackages.nodeOptionsFor(source.file, StintPackages.importersFrom(import.meta.url))
    let output = ""
    yield* Effect.acquireRelease(
      Effect.sync(() => {
        const child = spawn(process.execPath, [...nodeOptions, source.file], {
          cwd: dirname(source.file),
          stdio: ["ignore", "pipe", "pipe"],
          env: {
            // All variables of this command except the platform's settings, such as the operator's key, which workers never get.
            ...inheritedEnvironment(process.env, ["*"]),
            ...Object.fromEntries(
              Object.entries(env).flatMap(([name, value]) => typeof value === "string" ? [[name, value]] : [])
            ),
            ...workerEnvironment({
              baseUrl: `http://127.0.0.1:${port}`,
              endpoint: id,
              worker: "definition",
              key: "definition",
              pingIntervalMs: 10_000
            })
          }
        })
        const keep = (part: Buffer) => {
          output = `${output}${part.toString("utf8")}`.slice(-MOST_OUTPUT)
        }
        child.stdout.on("data", keep)
        child.stderr.on("data", keep)
        child.once("error", ({ message }) => Deferred.doneUnsafe(found, Effect.fail(failed(id, message))))
        child.once("exit", (code, signal) => {
          const lines = output.trimEnd().split("\n")
          const last = lines.findLast((line) => /Error\b/.test(line)) ?? lines.at(-1) ?? ""
          Deferred.doneUnsafe(
            found,
            Effect.fail(
              failed(id, `its handler ended with ${signal ?? `exit code ${code ?? "unknown"}`} before it had sent it. ${last}`)
            )
          )
        })
        return child
      }),
      end
    )
    return yield* Effect.timeoutOrElse(Deferred.await(found), {
      duration: LIMIT,
      orElse: () => Effect.fail(failed(id, `its handler did not send it within ${LIMIT}. Is it a pipeline?`))
    })
  },
  Effect.scoped
)
