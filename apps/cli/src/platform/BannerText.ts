/**
 * The startup banner: the address, the location of the key and a curl command for the first request.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { Durability } from "@stint/store/JobStore"
import * as Redacted from "effect/Redacted"
import type { KeyPlace } from "../config/AdminKey.ts"

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
  readonly place: KeyPlace
  /** Whether a person reads the banner. Otherwise it may end up in a log. */
  readonly isTerminal: boolean
  readonly durability: Durability
  readonly dataDir: string | undefined
  /** The host and name of the PostgreSQL database. */
  readonly database?: string | undefined
  readonly endpoints: ReadonlyArray<Endpoint>
  /** Whether to print the addresses of the endpoints instead of their names. */
  readonly showsUrls?: boolean
  /** Input for the curl command. */
  readonly sample: { readonly endpoint: string; readonly input: unknown } | undefined
}

/** A new key is printed intentionally, so that the operator can copy it, but only to a terminal. */
const keyText = (place: KeyPlace, isTerminal: boolean): string => {
  switch (place._tag) {
    case "Environment":
      return "from STINT_API_KEY"
    case "File":
      return place.key !== undefined && isTerminal
        ? `${Redacted.value(place.key)}   (new, shown only this once; also in ${place.file})`
        : `in ${place.file}`
    case "Lost":
      return `not in ${place.file}; for a new one, run: stint keys rotate admin`
  }
}

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/** The expression that a shell expands to the key inside double quotes; undefined when the key is lost. */
const keyExpression = (place: KeyPlace): string | undefined => {
  switch (place._tag) {
    case "Environment":
      return "$STINT_API_KEY"
    case "File":
      return `$(cat ${quoted(place.file)})`
    case "Lost":
      return undefined
  }
}

/** The endpoint with the release that its next worker runs. */
const endpointText = ({ id, release }: Endpoint): string => release === undefined ? id : `${id} (release ${release})`

/** Formats the banner. */
export const text = (facts: BannerFields): string => {
  const lines = [
    "",
    `  Stint is up at     ${facts.baseUrl}`,
    ...(facts.guessedFrom === undefined ? [] : [
      `                     (a guess: it listens on ${facts.guessedFrom}; set STINT_PUBLIC_URL to the address that callers and workers use)`
    ]),
    `  API key            ${keyText(facts.place, facts.isTerminal)}`,
    `  Durability         ${durabilityInWords[facts.durability]}`
  ]
  if (facts.database !== undefined) lines.push(`  Database           ${facts.database}`)
  if (facts.dataDir !== undefined) lines.push(`  Data               ${facts.dataDir}`)
  lines.push(
    `  Endpoints          ${
      facts.endpoints.length === 0
        ? "none yet: stint endpoints create NAME --handler FILE"
        : facts.showsUrls === true
        ? facts.endpoints.map((one) => `${facts.baseUrl}/v2/${one.id}`).join(`\n${" ".repeat(21)}`)
        : facts.endpoints.map(endpointText).join(", ")
    }`
  )
  const key = keyExpression(facts.place)
  if (facts.sample !== undefined && key !== undefined) {
    lines.push(
      "",
      "  Try it:",
      "",
      `  curl -s ${facts.baseUrl}/v2/${facts.sample.endpoint}/runsync -H "Authorization: Bearer ${key}" -H 'Content-Type: application/json' -d ${
        quoted(JSON.stringify({ input: facts.sample.input }))
      }`
    )
  }
  return [...lines, ""].join("\n")
}
