/**
 * Prints the startup banner once the platform is running.
 */
import { JobQueue } from "@stint/queue/JobQueue"
import { PublicAddress } from "@stint/server/PublicAddress"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import process from "node:process"
import type { KeyPlace } from "../config/AdminKey.ts"
import * as BannerText from "./BannerText.ts"
import { findSampleInput } from "./SampleInput.ts"

/** Values that are not available from the platform's services. */
export interface Options {
  /** Where the operator finds the platform's API key. */
  readonly place: KeyPlace
  /** The data folder; undefined when the stores are in memory. */
  readonly dataDir: string | undefined
  /** The host and name of the PostgreSQL database. Default: none. */
  readonly database?: string | undefined
  /** Input for the curl command when no endpoint has a short test input. */
  readonly sample?: BannerText.BannerFields["sample"]
  /** Whether to print the addresses of the endpoints instead of their names. Default: false. */
  readonly showsUrls?: boolean
}

/** Prints the banner when its dependencies have started. */
export const layer = ({ dataDir, database, place, sample, showsUrls = false }: Options) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { baseUrl, guessedFrom } = yield* PublicAddress
    const { durability } = yield* JobQueue
    const endpoints = yield* (yield* EndpointStore).list
    yield* Console.log(BannerText.text({
      baseUrl,
      guessedFrom,
      place,
      isTerminal: process.stdout.isTTY,
      durability,
      dataDir,
      database,
      endpoints,
      showsUrls,
      sample: (yield* findSampleInput(endpoints)) ?? sample
    }))
  }))
