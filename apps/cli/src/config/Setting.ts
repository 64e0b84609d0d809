/**
 * Reads one environment variable. For an invalid value, it fails with the value and the required form.
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import { CliFailure } from "../CliFailure.ts"
import type { SecretSettingName, SettingName } from "./SettingNames.ts"

/** Longer values are truncated in messages. Characters. */
const SHOWN_CHARACTERS = 80

/** The first line of a ConfigError, which states what was expected. The other lines name the variable, which the message already does. */
const reasonOf = ({ cause }: Config.ConfigError): string => cause.message.split("\n")[0] ?? cause.message

const invalid = (name: SettingName, value: string, shape: string, error: Config.ConfigError) =>
  new CliFailure({
    message: `The variable ${name} is ${value}: ${reasonOf(error)}.`,
    hint: `It must be ${shape}. Unset it to use the default.`
  })

/** Reads a variable. Fails with its value, the reason, and `shape`: a description of valid values that completes "It must be ...". */
export const setting = <A>(name: SettingName, shape: string, config: Config.Config<A>): Effect.Effect<A, CliFailure> =>
  Effect.catch(
    config,
    (error) =>
      Effect.flatMap(
        Effect.orElseSucceed(Config.String(name), () => ""),
        (value) => Effect.fail(invalid(name, JSON.stringify(value.slice(0, SHOWN_CHARACTERS)), shape, error))
      )
  )

/** Like {@link setting}, for a variable whose value must not be shown. */
export const secretSetting = <A>(
  name: SecretSettingName,
  shape: string,
  config: Config.Config<A>
): Effect.Effect<A, CliFailure> => Effect.catch(config, (error) => Effect.fail(invalid(name, "invalid", shape, error)))

/** The parts of a comma-separated setting, without spaces around them and without empty parts. */
export const commaSeparated = (text: string): ReadonlyArray<string> =>
  text.split(",").map((one) => one.trim()).filter((one) => one !== "")
