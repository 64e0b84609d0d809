/**
 * Settings for the container engine, for endpoints with the source `container`. If a value is invalid, the platform does not start, and the error
 * names the variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_ENGINE` | the usual sockets of Docker and Podman, tried when a worker first needs one | path of the engine's unix socket. When it is set,
 * the platform connects at startup and logs if no engine responds |
 * | `STINT_ENGINE_AUTH` | `~/.docker/config.json`, or else Podman's `auth.json` | file with the credentials of image registries, as `docker login` writes it |
 * | `STINT_ENGINE_VOLUMES` | none | folders that endpoints may mount, comma-separated. The holder of a key with the scope `deploy` can read everything in them, and change it unless file permissions prevent that |
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { resolve } from "node:path"
import type { CliFailure } from "../CliFailure.ts"
import { commaSeparated, setting } from "./Setting.ts"

/** The settings. Undefined members: the pool's default. */
export interface EngineSettings {
  readonly socket: string | undefined
  readonly credentials: string | undefined
  readonly volumes: ReadonlyArray<string>
}

/** `/run/docker.sock` or `unix:///run/docker.sock`. */
const Socket = Schema.String.check(Schema.isPattern(/^(?:unix:\/\/)?\/./, { message: "Expected the path of a unix socket" }))

const Folders = Schema.String.check(
  Schema.makeFilter((text) => commaSeparated(text).every((path) => path.startsWith("/")) || "comma-separated absolute paths")
)

/** Reads the settings. Fails on the first invalid setting. */
export const load: Effect.Effect<EngineSettings, CliFailure> = Effect.all({
  socket: setting(
    "STINT_ENGINE",
    "the path of a unix socket, for example /run/podman/podman.sock",
    Config.option(Config.schema(Socket, "STINT_ENGINE")).pipe(
      Config.map((socket) => Option.getOrUndefined(Option.map(socket, (path) => path.replace(/^unix:\/\//, ""))))
    )
  ),
  credentials: setting(
    "STINT_ENGINE_AUTH",
    "a file, for example /etc/stint/registry.json",
    Config.option(Config.NonEmptyString("STINT_ENGINE_AUTH")).pipe(
      Config.map((file) => Option.getOrUndefined(Option.map(file, (path) => resolve(path))))
    )
  ),
  volumes: setting(
    "STINT_ENGINE_VOLUMES",
    "comma-separated absolute paths of folders, for example /srv/models, /srv/data",
    Config.schema(Folders, "STINT_ENGINE_VOLUMES").pipe(Config.withDefault(""), Config.map(commaSeparated))
  )
})
