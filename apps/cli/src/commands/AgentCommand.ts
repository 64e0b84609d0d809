/**
 * `stint agent`: runs workers on this machine for a platform on another one (docs/operations/agents.md).
 */
import { AgentName, MAX_AGENT_WORKERS } from "@stint/contract/Agent"
import { labelText } from "@stint/contract/Placement"
import * as Agent from "@stint/pool-agent/Agent"
import * as AgentOutput from "@stint/pool-agent/AgentOutput"
import * as PlatformLink from "@stint/pool-agent/PlatformLink"
import * as ProcessPool from "@stint/pool-process/ProcessPool"
import { Command, Flag } from "effect/cli"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import manifest from "../../package.json" with { type: "json" }
import * as AgentFolder from "../agent/AgentFolder.ts"
import { CliFailure } from "../CliFailure.ts"
import * as AgentConfig from "../config/AgentConfig.ts"
import * as Machine from "../config/Machine.ts"
import * as WorkerConfig from "../config/WorkerConfig.ts"
import * as LogFormat from "../output/LogFormat.ts"
import { isLoopback } from "../platform/SafetyWarnings.ts"
import * as WorkerPoolLayers from "../platform/WorkerPoolLayers.ts"
import { runUntilSignal } from "../Signals.ts"
import { labels } from "./SharedFlags.ts"

const Address = Schema.URLFromString.check(
  Schema.makeFilter((url) => url.protocol === "http:" || url.protocol === "https:" || "an http or https address")
)

const Limit = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))

const noToken = new CliFailure({
  message: "The agent has no token.",
  hint:
    "Create one where the platform runs (stint keys create NAME --scope agent --all-endpoints), and set STINT_AGENT_TOKEN to it, or give --token.",
  code: "no-key"
})

/** Fails if the platform does not accept the agent. While the platform cannot be reached, the agent starts and tries again. */
const checkToken = Effect.fnUntraced(function*(link: PlatformLink.PlatformLink) {
  // No epoch has this name: the platform checks the token first, and then refuses the epoch.
  const answer = yield* Effect.result(link.changes("none", 0))
  if (answer._tag === "Success" || answer.failure.kind !== "rejected") return
  const { hint, problem } = answer.failure
  return yield* new CliFailure({ message: problem, hint, code: "rejected" })
})

/** `stint agent`. */
export const agent = Command.make(
  "agent",
  {
    join: Flag.String("join").pipe(
      Flag.withMetavar("url"),
      Flag.withDescription("The address of the platform, for example http://10.0.0.5:4600. Workers on this machine use it too"),
      Flag.withSchema(Address)
    ),
    token: Flag.String("token").pipe(
      Flag.withDescription("A key with the scope agent. Default: STINT_AGENT_TOKEN, which other users of the machine cannot see"),
      Flag.optional
    ),
    name: Flag.String("name").pipe(
      Flag.withDescription("The name of this agent. Default: the name of the machine"),
      Flag.withSchema(AgentName),
      Flag.optional
    ),
    workers: Flag.Int("max-workers").pipe(
      Flag.withDescription(`The maximum number of workers, 0 to ${MAX_AGENT_WORKERS}. Default: two for each CPU`),
      Flag.withSchema(Limit(MAX_AGENT_WORKERS)),
      Flag.optional
    ),
    gpus: Flag.Int("gpus").pipe(
      Flag.withDescription("The number of GPUs that workers may use. Default: those of the NVIDIA driver"),
      Flag.withSchema(Limit(64)),
      Flag.optional
    ),
    labels: labels("label", "A label of this machine, which endpoints can require: NAME=VALUE; repeatable")
  },
  Effect.fnUntraced(
    function*({ gpus, join, labels, name, token, workers }) {
      const settings = yield* AgentConfig.load
      const { engine, shutdownGrace, volumes } = settings
      const url = join.href.replace(/\/+$/, "")
      const key = Option.getOrUndefined(Option.orElse(Option.map(token, Redacted.make), () => settings.token))
      if (key === undefined) return yield* noToken
      const called = Option.getOrElse(name, Machine.defaultName)
      const link = yield* PlatformLink.http({ url, name: called, token: key })
      yield* checkToken(link)
      const folder = yield* AgentFolder.open(settings.dataDir)
      const options = yield* WorkerConfig.resolveFor(settings.workers, folder.path)
      const containers = engine.socket !== undefined ||
        (yield* Effect.promise(() => import("@stint/pool-container/EngineSocket"))).exists()
      const machine = Machine.capacity({ gpus: Option.getOrUndefined(gpus) })
      const capacity = Machine.agentCapacity(machine, Option.getOrUndefined(workers))
      yield* Console.log(
        `Agent ${called} runs workers of ${url} on this machine: at most ${capacity.workers}, ${
          containers ? "as processes or containers" : "as processes"
        }.${Object.keys(labels).length === 0 ? "" : ` Its labels are ${labelText(labels)}.`} Its data folder is ${folder.path}.`
      )
      if (join.protocol === "http:" && !isLoopback(join.hostname)) {
        yield* Effect.logWarning(
          `The agent calls ${url} without TLS: its token, and the keys, secrets and inputs of workers, can be read on the network. ` +
            "Put a TLS proxy in front of the platform, or use a private network."
        )
      }
      const layer = Agent.layer({
        link,
        address: url,
        instance: folder.instance,
        version: manifest.version,
        capacity,
        volumes: Object.keys(volumes),
        labels,
        drained: { initial: folder.isDrained, store: folder.storeDrained },
        shutdownGrace
      }).pipe(
        Layer.provide(WorkerPoolLayers.layer(
          ProcessPool.layer({ dataDir: folder.path, packagesOf: import.meta.url, namedVolumes: volumes, ...options }),
          { dataDir: folder.path, engine, volumes, containers, capacity: machine }
        )),
        Layer.provide(AgentOutput.layerLog),
        Layer.provide(AgentOutput.layer),
        Layer.catchTag(
          "PoolError",
          (error) =>
            Layer.effectDiscard(Effect.fail(new CliFailure({ message: `The agent cannot start: ${error.message}`, hint: "" })))
        )
      )
      yield* runUntilSignal(layer)
    },
    Effect.scoped,
    Effect.provide(LogFormat.layer)
  )
).pipe(
  Command.withDescription("Run workers on this machine for a platform on another one"),
  Command.withExamples([
    {
      command: "stint agent --join http://10.0.0.5:4600 --max-workers 8",
      description: "Join the platform, with the token in STINT_AGENT_TOKEN"
    }
  ])
)
