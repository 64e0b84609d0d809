/**
 * The duty of saying that the platform is up, once, when it is.
 */
import { JobQueue } from "@stint/queue/JobQueue"
import { PublicAddress } from "@stint/server/PublicAddress"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { AdminKey } from "../config/AdminKey.ts"
import * as BannerText from "./BannerText.ts"
import { findSampleInput } from "./SampleInput.ts"

/** What the platform itself does not know. */
export interface Options {
  readonly admin: AdminKey
  /** Where its data is kept; undefined where it keeps none. */
  readonly dataDir: string | undefined
  /** An input for the curl line, where no endpoint has a short test input of its own. */
  readonly sample?: BannerText.BannerFields["sample"]
}

/** Prints the banner when the platform below it is built. */
export const layer = ({ admin, dataDir, sample }: Options) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { baseUrl, guessedFrom } = yield* PublicAddress
    const { durability } = yield* JobQueue
    const endpoints = yield* (yield* EndpointStore).list
    yield* Console.log(BannerText.text({
      baseUrl,
      guessedFrom,
      apiKey: admin.key,
      apiKeySource: admin.origin,
      durability,
      dataDir,
      endpoints,
      sample: (yield* findSampleInput(endpoints)) ?? sample
    }))
  }))
