/**
 * The ids of workers that the autoscaler starts.
 */
import { WorkerId } from "@stint/contract/Ids"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"

/** A new id, such as `w-3f9a7kq0zc`. */
export const newWorkerId = Effect.map(
  Effect.all(Array.from({ length: 10 }, () => Random.nextIntBetween(0, ALPHABET.length, { halfOpen: true }))),
  (digits) => WorkerId.make(`w-${digits.map((digit) => ALPHABET.charAt(digit)).join("")}`)
)
