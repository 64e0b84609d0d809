/**
 * Replaces the platform's address in the variables of the worker protocol, for pools whose workers reach the platform at a different address.
 */
import { ENV_PREFIXES } from "@stint/contract/WorkerProtocol"

/** The variables with a different platform address. */
export const withAddress = (
  variables: Readonly<Record<string, string>>,
  from: string,
  to: string
): Record<string, string> =>
  Object.fromEntries(
    Object.entries(variables).map(([name, value]) => [
      name,
      value.startsWith(`${from}/`) ? to + value.slice(from.length) : value
    ])
  )

/** The platform's address in the variables; undefined when they contain none. */
export const addressIn = (variables: Readonly<Record<string, string>>): URL | undefined => {
  for (const prefix of ENV_PREFIXES) {
    const url = variables[`${prefix}WEBHOOK_GET_JOB`]
    if (url !== undefined && URL.canParse(url)) return new URL(url)
  }
  return undefined
}
