/**
 * Settings of `stint agent`, read from the environment once at startup. On an invalid value, the agent does not start, and the error names the
 * variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_AGENT_TOKEN` | none | the agent's key, unless `--token` is given |
 * | `STINT_DATA_DIR` | .stint-agent | folder for the agent's identity, records of its workers and the code of releases |
 * | `STINT_SHUTDOWN_GRACE` | 30 seconds | time for running jobs to finish when the agent stops |
 *
 * The settings of workers, the engine and volumes are the same as a platform's (WorkerConfig.ts, EngineConfig.ts, VolumesConfig.ts).
 */
import type { NamedVolumes } from "@stint/pool/NamedVolumes"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { CliFailure } from "../CliFailure.ts"
import * as EngineConfig from "./EngineConfig.ts"
import { secretSetting, setting } from "./Setting.ts"
import { rejectUnknown } from "./SettingNames.ts"
import * as VolumesConfig from "./VolumesConfig.ts"
import * as WorkerConfig from "./WorkerConfig.ts"

export interface AgentConfig {
  readonly token: Option.Option<Redacted.Redacted>
  readonly dataDir: string
  readonly shutdownGrace: Duration.Duration
  readonly engine: EngineConfig.EngineSettings
  readonly volumes: NamedVolumes
  readonly workers: WorkerConfig.WorkerSettings
}

const Token = Schema.Redacted(Schema.String.check(Schema.isPattern(/^\S+$/)))

/** Reads all settings. Fails on the first invalid setting, and on an unknown variable that looks like a setting. */
export const load: Effect.Effect<AgentConfig, CliFailure> = Effect.andThen(
  rejectUnknown,
  Effect.all({
    token: secretSetting(
      "STINT_AGENT_TOKEN",
      "a key with the scope agent, without spaces",
      Config.option(Config.schema(Token, "STINT_AGENT_TOKEN"))
    ),
    dataDir: setting(
      "STINT_DATA_DIR",
      "a folder, for example .stint-agent",
      Config.NonEmptyString("STINT_DATA_DIR").pipe(Config.withDefault(".stint-agent"))
    ),
    shutdownGrace: setting(
      "STINT_SHUTDOWN_GRACE",
      "a duration, for example \"30 seconds\" or \"2 minutes\"",
      Config.Duration("STINT_SHUTDOWN_GRACE").pipe(Config.withDefault(Duration.seconds(30)))
    ),
    engine: EngineConfig.load,
    volumes: VolumesConfig.load,
    workers: WorkerConfig.load
  })
)
