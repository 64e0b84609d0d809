/**
 * The part of the Docker-compatible engine API that the pool uses. Docker and Podman implement it.
 */
import type { WorkerResources } from "@stint/pool/WorkerPool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { type EngineError, EngineRefused } from "./EngineError.ts"
import { type EngineRequest, stream, text, textWithoutLimit } from "./EngineHttp.ts"

const State = Schema.Struct({
  /** The container's id. */
  Id: Schema.String,
  State: Schema.Struct({
    /** `created`, `running`, `exited`, ... */
    Status: Schema.String,
    Running: Schema.Boolean,
    OOMKilled: Schema.Boolean,
    /** The process id on the host; 0 when the container does not run. */
    Pid: Schema.Int,
    ExitCode: Schema.Int
  })
})
/** The state of a container, as the engine reports it. */
export type ContainerState = typeof State.Type

const Image = Schema.Struct({
  /** `sha256:...` */
  Id: Schema.String,
  /** `name@sha256:...` for each registry that has the image. */
  RepoDigests: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.String))),
  Architecture: Schema.String,
  Os: Schema.String
})
/** An image on the engine's machine. */
export type Image = typeof Image.Type

const Listed = Schema.Array(Schema.Struct({
  Id: Schema.String,
  Labels: Schema.NullOr(Schema.Record(Schema.String, Schema.String))
}))

const Stats = Schema.Struct({
  cpu_stats: Schema.Struct({
    /** Nanoseconds. */
    cpu_usage: Schema.Struct({ total_usage: Schema.Finite })
  }),
  /** In bytes. Empty for a container that has just ended. */
  memory_stats: Schema.optionalKey(Schema.NullOr(Schema.Struct({
    usage: Schema.optionalKey(Schema.Finite),
    /** Of the control group: `inactive_file` in version 2, `total_inactive_file` in version 1. */
    stats: Schema.optionalKey(Schema.NullOr(Schema.Record(Schema.String, Schema.Finite)))
  })))
})

const decode = <S extends Schema.Constraint & { readonly DecodingServices: never }>(schema: S) => {
  const decodeText = Schema.decodeUnknownEffect(Schema.fromJsonString(schema))
  return (body: string): Effect.Effect<S["Type"], EngineRefused> =>
    Effect.mapError(
      decodeText(body),
      (error) => new EngineRefused({ status: 0, problem: `its response cannot be decoded (${error.message})` })
    )
}

const decodeState = decode(State)
const decodeImage = decode(Image)
const decodeStats = decode(Stats)
const decodeListed = decode(Listed)
const decodeCreated = decode(Schema.Struct({ Id: Schema.String }))
const decodeVersion = decode(Schema.Struct({
  Version: Schema.String,
  Components: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.Struct({ Name: Schema.String }))))
}))

/** Memory without the files that the kernel can drop at any time, as `docker stats` shows it. */
const resourcesOf = ({ cpu_stats, memory_stats }: typeof Stats.Type): WorkerResources => {
  const { stats, usage } = memory_stats ?? {}
  const droppable = stats?.["inactive_file"] ?? stats?.["total_inactive_file"] ?? 0
  return {
    cpuMillis: cpu_stats.cpu_usage.total_usage / 1_000_000,
    memoryBytes: usage === undefined || usage === 0 ? undefined : Math.max(0, usage - droppable)
  }
}

/** Which engine answers. */
export interface EngineVersion {
  /** `28.2.2`, `5.4.0` */
  readonly version: string
  readonly isPodman: boolean
}

export interface Engine {
  readonly socket: string
  /** The version of a running engine. */
  readonly version: Effect.Effect<EngineVersion, EngineError>
  /** Returns the id of the created container. */
  readonly create: (name: string, body: unknown) => Effect.Effect<string, EngineError>
  readonly start: (container: string) => Effect.Effect<void, EngineError>
  /** Sends a signal to the container's first process. */
  readonly signal: (container: string, signal: "SIGKILL" | "SIGTERM") => Effect.Effect<void, EngineError>
  /** Returns when the container does not run. */
  readonly wait: (container: string) => Effect.Effect<void, EngineError>
  readonly inspect: (container: string) => Effect.Effect<ContainerState, EngineError>
  /** What the container's processes use. */
  readonly resources: (container: string) => Effect.Effect<WorkerResources, EngineError>
  /** Kills the container if it runs, and removes it with its anonymous volumes. */
  readonly remove: (container: string) => Effect.Effect<void, EngineError>
  /** All containers with this label, including stopped ones. */
  readonly list: (label: string) => Effect.Effect<typeof Listed.Type, EngineError>
  /** Reads the multiplexed output from its beginning. With `follow`, returns when the container has ended. */
  readonly logs: (
    container: string,
    follow: boolean,
    onChunk: (chunk: Buffer) => Effect.Effect<void, EngineError>
  ) => Effect.Effect<void, EngineError>
  readonly image: (reference: string) => Effect.Effect<Image, EngineError>
  /** Pulls an image. The chunks are lines of JSON; a line of a successful response may contain an error. */
  readonly pull: (
    reference: string,
    credentials: string | undefined,
    onChunk: (chunk: Buffer) => Effect.Effect<void, EngineError>
  ) => Effect.Effect<void, EngineError>
}

/** The engine at a unix socket. Each request opens a new connection. */
export const make = (socket: string): Engine => {
  const call = (method: EngineRequest["method"], path: string, body?: unknown) => text(socket, { method, path, body })
  const container = (id: string, rest = "") => `/containers/${encodeURIComponent(id)}${rest}`
  return {
    socket,
    version: Effect.flatMap(call("GET", "/version"), (body) =>
      Effect.map(decodeVersion(body), ({ Components, Version }) => ({
        version: Version,
        isPodman: (Components ?? []).some(({ Name }) => /podman/i.test(Name))
      }))),
    create: (name, body) =>
      Effect.flatMap(
        call("POST", `/containers/create?name=${encodeURIComponent(name)}`, body),
        (created) => Effect.map(decodeCreated(created), ({ Id }) => Id)
      ),
    start: (id) => Effect.asVoid(call("POST", container(id, "/start"))),
    signal: (id, signal) => Effect.asVoid(call("POST", container(id, `/kill?signal=${signal}`))),
    wait: (id) => Effect.asVoid(textWithoutLimit(socket, { method: "POST", path: container(id, "/wait") })),
    inspect: (id) => Effect.flatMap(call("GET", container(id, "/json")), decodeState),
    resources: (id) =>
      Effect.flatMap(
        call("GET", container(id, "/stats?stream=false&one-shot=true")),
        (body) => Effect.map(decodeStats(body), resourcesOf)
      ),
    remove: (id) => Effect.asVoid(call("DELETE", container(id, "?force=true&v=true"))),
    list: (label) =>
      Effect.flatMap(
        call("GET", `/containers/json?all=true&filters=${encodeURIComponent(JSON.stringify({ label: [label] }))}`),
        decodeListed
      ),
    logs: (id, follow, onChunk) =>
      stream(socket, { method: "GET", path: container(id, `/logs?stdout=true&stderr=true&follow=${follow}`) }, onChunk),
    image: (reference) =>
      Effect.flatMap(call("GET", `/images/${reference.split("/").map(encodeURIComponent).join("/")}/json`), decodeImage),
    pull: (reference, credentials, onChunk) =>
      stream(socket, {
        method: "POST",
        path: `/images/create?fromImage=${encodeURIComponent(reference)}`,
        ...(credentials === undefined ? {} : { headers: { "x-registry-auth": credentials } })
      }, onChunk)
  }
}
