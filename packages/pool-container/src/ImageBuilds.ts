/**
 * The engine's operations for image builds: its program, its images, and pushes.
 */
import type { PoolError } from "@stint/pool/PoolError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { basename, dirname } from "node:path"
import type { Engine } from "./Engine.ts"
import { type EngineError, isNotFound } from "./EngineError.ts"
import { stream, text } from "./EngineHttp.ts"
import { locate } from "./EngineSocket.ts"
import { machinePlatform } from "./Images.ts"
import * as RegistryCredentials from "./RegistryCredentials.ts"

/** The engine cannot do what a build needs. */
export class ImageBuildError extends Schema.TaggedError<ImageBuildError>()("ImageBuildError", {
  /** What is wrong, as a sentence. */
  problem: Schema.String,
  /** What to do, as a sentence. */
  hint: Schema.String
}) {}

/** The engine's socket, and the file with the registry credentials. Defaults as in the container pool. */
export interface Options {
  readonly socket: string | undefined
  readonly credentials: string | undefined
}

const decodeVersion = Schema.decodeUnknownOption(Schema.fromJsonString(
  Schema.Struct({ Components: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.Struct({ Name: Schema.String })))) })
))

const decodePushLine = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Struct({
  error: Schema.optionalKey(Schema.String),
  status: Schema.optionalKey(Schema.String),
  aux: Schema.optionalKey(Schema.Struct({ Digest: Schema.optionalKey(Schema.String) }))
})))

const failed = (problem: string, hint: string) => new ImageBuildError({ problem, hint })

const unreachable = (error: EngineError) =>
  failed(
    `The container engine does not answer: ${error.problem}.`,
    "Start Docker or Podman (systemctl enable --now podman.socket), or set STINT_ENGINE to the path of its socket."
  )

/** Rewords a pool's error for a build, which starts no worker. */
const unusable = ({ message, reason }: PoolError) =>
  reason._tag === "PoolUnavailable" ? failed(`This platform cannot build: ${reason.problem}.`, reason.hint) : failed(message, "")

const exists = (program: string) =>
  Effect.callback<boolean>((resume) => {
    const child = spawn(program, ["--version"], { stdio: "ignore" })
    child.once("error", () => resume(Effect.succeed(false)))
    child.once("close", (code) => resume(Effect.succeed(code === 0)))
  })

/** Explains why a push failed. */
const pushError = (image: string, problem: string, files: ReadonlyArray<string>, hasCredentials: boolean) => {
  const registry = RegistryCredentials.registryOf(image)
  if (/unauthorized|authentication required|denied|forbidden|incorrect username or password|\b40[13]\b/i.test(problem)) {
    const where = files.join(" or ")
    return failed(
      hasCredentials
        ? `The registry ${registry} rejects the credentials for the push of ${image} (${problem}).`
        : `The registry ${registry} requires credentials for the push of ${image} (${problem}).`,
      `${hasCredentials ? "Correct the entry" : "Add an entry"} for ${registry} in ${where}: docker login ${registry}.`
    )
  }
  if (/no space left/i.test(problem)) {
    return failed(`The disk of the registry or of the engine is full (${problem}).`, "Free space, and build again.")
  }
  return failed(
    `The image ${image} cannot be pushed (${problem}).`,
    "Check STINT_REGISTRY, and whether this machine reaches the registry."
  )
}

/** The engine's part in builds. */
export const make = ({ credentials, socket }: Options) => {
  const files = credentials === undefined ? RegistryCredentials.usualFiles() : [credentials]
  const engine = Effect.mapError(locate(socket), unusable)

  const program = Effect.gen(function*() {
    const { socket } = yield* engine
    const version = yield* Effect.mapError(text(socket, { method: "GET", path: "/version" }), unreachable)
    const { Components } = Option.getOrElse(decodeVersion(version), (): { readonly Components?: null } => ({}))
    const isPodman = Components?.some(({ Name }) => Name.startsWith("Podman")) ?? false
    const command = isPodman ? "podman" : "docker"
    if (!(yield* exists(command))) {
      return yield* failed(
        `The program ${command} is not installed on the platform's machine. Builds use it, because the engine's API has no build secrets.`,
        `Install it: apt install ${isPodman ? "podman" : "docker-cli"}`
      )
    }
    const file = files.find((one) => existsSync(one))
    return isPodman
      ? {
        command,
        args: ["--remote", "--url", `unix://${socket}`],
        buildArgs: file === undefined ? [] : ["--authfile", file],
        env: {}
      }
      : {
        command,
        args: ["--host", `unix://${socket}`],
        buildArgs: [],
        env: file !== undefined && basename(file) === "config.json" ? { DOCKER_CONFIG: dirname(file) } : {}
      }
  })

  const image = Effect.fnUntraced(function*(reference: string) {
    const running: Engine = yield* engine
    const found = yield* Effect.catch(
      running.image(reference),
      (error) => isNotFound(error) ? Effect.succeed(undefined) : Effect.fail(unreachable(error))
    )
    return found === undefined ? undefined : {
      id: found.Id.startsWith("sha256:") ? found.Id : `sha256:${found.Id}`,
      digests: (found.RepoDigests ?? []).filter((digest) => digest.includes("@sha256:")),
      platform: `${found.Os}/${found.Architecture}`
    }
  })

  const push = Effect.fnUntraced(function*(reference: string) {
    const { socket } = yield* engine
    const header = yield* Effect.mapError(
      RegistryCredentials.headerFor(reference, files),
      unusable
    )
    const at = reference.lastIndexOf(":")
    const [name, tag] = [reference.slice(0, at), reference.slice(at + 1)]
    let digest: string | undefined
    let problem: string | undefined
    let open = ""
    const readLine = (line: string) => {
      const push = Option.getOrUndefined(decodePushLine(line))
      problem ??= push?.error
      digest = push?.aux?.Digest ?? /digest: (sha256:[0-9a-f]{64})/.exec(push?.status ?? "")?.[1] ?? digest
    }
    yield* stream(
      socket,
      {
        method: "POST",
        path: `/images/${name.split("/").map(encodeURIComponent).join("/")}/push?tag=${encodeURIComponent(tag)}`,
        // Engines require the header, also for registries without credentials.
        headers: { "x-registry-auth": header ?? RegistryCredentials.encodeHeader({}) }
      },
      (chunk) =>
        Effect.sync(() => {
          const lines = (open + chunk.toString("utf8")).split("\n")
          open = lines.pop() ?? ""
          for (const line of lines) readLine(line)
        })
    ).pipe(
      Effect.mapError((error) =>
        error._tag === "EngineUnreachable" ? unreachable(error) : pushError(reference, error.problem, files, header !== undefined)
      )
    )
    readLine(open)
    if (problem !== undefined) return yield* pushError(reference, problem.trim().replace(/\.$/, ""), files, header !== undefined)
    if (digest === undefined) {
      return yield* failed(`The engine pushed ${reference}, but did not report its digest.`, "Use Docker, or Podman 4 or later.")
    }
    return digest
  })

  return { program, image, push, machine: machinePlatform() }
}
