/**
 * The cost of a body is proportional to its size: for every operation that reads a body, and for every value in it, a body of N bytes costs
 * at most c x N of CPU time and of memory, whatever that value is. `DecodingCost.long.test.ts` tries every bomb at every place.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { BOMB_NAMES, costText, isExpensive, layerServer, meter, PLACES, placeText } from "./DecodingCosts.ts"
import { BODY_OPERATIONS } from "./HostileBodies.ts"

/** Large enough for a cost far above the fixed cost of a request. */
const SIZE = 100_000

describe("the cost of a body", () => {
  it.live("is proportional to its size, for every operation and every value in its body", () =>
    Effect.gen(function*() {
      expect(BODY_OPERATIONS.length).toBeGreaterThanOrEqual(14)
      expect(PLACES.length).toBeGreaterThan(100)
      const costOf = yield* meter
      const expensive: Array<string> = []
      for (const [at, place] of PLACES.entries()) {
        // Each place gets one of the bombs, and each bomb many places.
        const bomb = BOMB_NAMES[at % BOMB_NAMES.length] ?? ""
        const cost = yield* costOf(bomb, SIZE, place, isExpensive)
        if (isExpensive(cost)) expensive.push(`${placeText(bomb, place)}: ${costText(cost)}`)
      }
      expect(expensive).toEqual([])
    }).pipe(Effect.provide(layerServer)))
})
