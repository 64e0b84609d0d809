/**
 * Default variables for workers that share the platform's machine, as processes or containers. They differ from RunPod's defaults, because RunPod's
 * workers have their own machines (docs/decisions/0006-fitness-thresholds-of-local-workers.md).
 */
import { ENV_PREFIXES } from "@stint/contract/WorkerProtocol"

/**
 * Default variables for workers on the platform's machine, without prefix. A worker needs about 0.1 GB of memory to start, and the platform's store
 * needs 1 % of the disk. If a killed platform is never restarted, its workers exit by themselves after an hour.
 */
const DEFAULTS = { MIN_MEMORY_GB: "0.1", MIN_DISK_PERCENT: "1", UNREACHABLE_LIMIT: "3600000" } as const

/**
 * The {@link DEFAULTS} that this environment does not set, under both prefixes, because an SDK may read only one of them. A variable that
 * is set under either prefix suppresses the default under both. A blank value counts as unset.
 */
export const defaultsFor = (environment: Readonly<Record<string, string | undefined>>): Record<string, string> => {
  const result: Record<string, string> = {}
  for (const [name, value] of Object.entries(DEFAULTS)) {
    const names = ENV_PREFIXES.map((prefix) => prefix + name)
    if (names.some((one) => (environment[one] ?? "").trim() !== "")) continue
    for (const one of names) result[one] = value
  }
  return result
}
