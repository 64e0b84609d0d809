/** As `DecodingCost.test.ts`, with every bomb at every place, and with two sizes, so that the cost of each further byte is measured. */
import { describe, expect, it } from "@effect/vitest"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import {
  BOMB_NAMES,
  type Cost,
  costText,
  isExpensive,
  layerServer,
  MEMORY_PER_BYTE,
  meter,
  PLACES,
  placeText,
  TIME_PER_BYTE
} from "./DecodingCosts.ts"

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

  it.live("grows by a bounded amount with each byte, also where the fixed cost hides it in a small body", () =>
    Effect.gen(function*() {
      const costOf = yield* meter
      const expensive: Array<string> = []
      const slope = { nanos: 0, bytes: 0 }
      for (const [at, place] of PLACES.entries()) {
        const bomb = BOMB_NAMES[at % BOMB_NAMES.length] ?? ""
        // The least of four, because the difference contains the noise of both.
        const small = yield* costOf(bomb, SMALL, place, () => true)
        const perByte = ({ bytes, length, nanos }: Cost) => ({
          nanos: (nanos - small.nanos) / (length - small.length),
          bytes: (bytes - small.bytes) / (length - small.length)
        })
        const isSteep = (cost: Cost) => perByte(cost).nanos > TIME_PER_BYTE || perByte(cost).bytes > MEMORY_PER_BYTE
        const large = yield* costOf(bomb, LARGE, place, isSteep)
        const { bytes, nanos } = perByte(large)
        slope.nanos = Math.max(slope.nanos, nanos)
        slope.bytes = Math.max(slope.bytes, bytes)
        if (isSteep(large)) {
          expensive.push(`${placeText(bomb, place)}: ${Math.round(nanos)} ns and ${Math.round(bytes)} B per byte, ${costText(large)}`)
        }
      }
      yield* Console.log(`each byte of a body costs at most ${Math.round(slope.nanos)} ns and ${Math.round(slope.bytes)} B of heap`)
      expect(expensive).toEqual([])
    }).pipe(Effect.provide(layerServer)), 300_000)
})
