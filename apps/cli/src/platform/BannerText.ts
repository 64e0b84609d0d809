/**
 * The startup banner: the address, the key and a curl command for the first request.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { Durability } from "@stint/store/JobStore"
import * as Redacted from "effect/Redacted"

const durabilityInWords: Record<Durability, string> = {
  D2: "D2: acknowledged jobs survive a power failure",
  D1: "D1: acknowledged jobs survive a killed process, not a power failure",
  none: "none: jobs are in memory and are lost when the platform stops"
}

/** The banner's content. */
export interface BannerFields {
  readonly baseUrl: string
  /** The listening address, when `baseUrl` is derived from it and may be wrong. */
  readonly guessedFrom?: string | undefined
  readonly apiKey: Redacted.Redacted
  /** The origin of the key. */
  readonly apiKeySource: string
  readonly durability: Durability
  readonly dataDir: string | undefined
  readonly endpoints: ReadonlyArray<Endpoint>
  /** Input for the curl command. */
  readonly sample: { readonly endpoint: string; readonly input: unknown } | undefined
}

/** The key is printed intentionally, so that the operator can copy it. */
export const text = (facts: BannerFields): string => {
  const key = Redacted.value(facts.apiKey)
  const lines = [
    "",
    `  Stint is up at     ${facts.baseUrl}`,
    ...(facts.guessedFrom === undefined ? [] : [
      `                     (a guess: it listens on ${facts.guessedFrom}; set STINT_PUBLIC_URL to the address that callers and workers use)`
    ]),
    `  API key            ${key}   (${facts.apiKeySource})`,
    `  Durability         ${durabilityInWords[facts.durability]}`
  ]
  if (facts.dataDir !== undefined) lines.push(`  Data               ${facts.dataDir}`)
  lines.push(
    `  Endpoints          ${
      facts.endpoints.length === 0
        ? "none yet: stint endpoints create NAME --handler FILE"
        : facts.endpoints.map((one) => one.id).join(", ")
    }`
  )
  if (facts.sample !== undefined) {
    lines.push(
      "",
      "  Try it:",
      "",
      `  curl -s ${facts.baseUrl}/v2/${facts.sample.endpoint}/runsync -H 'Authorization: Bearer ${key}' -H 'Content-Type: application/json' -d '${
        JSON.stringify({ input: facts.sample.input }).replaceAll("'", "'\\''")
      }'`
    )
  }
  return [...lines, ""].join("\n")
}
