/** Like `DecodingCost.test.ts`, but with every bomb at every place, and with a second size. */
import { describe, expect, it } from "@effect/vitest"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import { BOMB_NAMES, costText, isExpensive, layerServer, meter, PLACES, placeText } from "./DecodingCosts.ts"

const SMALL = 100_000

/** Below the limit of every operation. */
const LARGE = 900_000

describe("the cost of a body", () => {
  it.live("is proportional to its size, for every bomb at every value in every body", () =>
    Effect.gen(function*() {
      const costOf = yield* meter
      const expensive: Array<string> = []
      for (const bomb of BOMB_NAMES) {
        for (const place of PLACES) {
          const cost = yield* costOf(bomb, SMALL, place, isExpensive)
          if (isExpensive(cost)) expensive.push(`${placeText(bomb, place)}: ${costText(cost)}`)
        }
      }
      expect(expensive).toEqual([])
    }).pipe(Effect.provide(layerServer)), 600_000)

  it.live(
    "is proportional to its size at nine times the size, where the fixed cost is a small part",
    () =>
      Effect.gen(function*() {
        const costOf = yield* meter
        const expensive: Array<string> = []
        const steepest = { nanos: 0, bytes: 0 }
        for (const [at, place] of PLACES.entries()) {
          const bomb = BOMB_NAMES[at % BOMB_NAMES.length] ?? ""
          const cost = yield* costOf(bomb, LARGE, place, isExpensive)
          steepest.nanos = Math.max(steepest.nanos, cost.nanos / cost.length)
          steepest.bytes = Math.max(steepest.bytes, cost.bytes / cost.length)
          if (isExpensive(cost)) expensive.push(`${placeText(bomb, place)}: ${costText(cost)}`)
        }
        yield* Console.log(`each byte costs at most ${Math.round(steepest.nanos)} ns and ${Math.round(steepest.bytes)} B of heap`)
        expect(expensive).toEqual([])
      }).pipe(Effect.provide(layerServer)),
    300_000
  )
})
