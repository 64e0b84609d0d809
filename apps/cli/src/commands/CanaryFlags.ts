/** The flags of commands that can deploy a release as a canary (docs/operations/releases.md#canaries). */
import { Canary } from "@stint/contract/Release"
import { Flag } from "effect/cli"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { CliFailure } from "../CliFailure.ts"

const decode = Schema.decodeUnknownEffect(Canary)

/** The rule of a canary. */
export const canaryFlags = {
  canary: Flag.Int("canary").pipe(
    Flag.withDescription(
      "Give the release only this percentage of the jobs, 1 to 50, until it is promoted with `stint releases promote`"
    ),
    Flag.optional
  ),
  canaryJobs: Flag.Int("canary-jobs").pipe(
    Flag.withDescription("Compare the canary's error rate after this number of its attempts; default 50"),
    Flag.optional
  ),
  canaryPoints: Flag.Finite("canary-points").pipe(
    Flag.withDescription(
      "Roll the canary back when its error rate is higher by more than this many percentage points; default 5"
    ),
    Flag.optional
  )
}

/** The rule that the flags describe; undefined without `--canary`. */
export const canaryOf = Effect.fnUntraced(function*(
  { canary, canaryJobs, canaryPoints }: {
    readonly canary: Option.Option<number>
    readonly canaryJobs: Option.Option<number>
    readonly canaryPoints: Option.Option<number>
  }
): Effect.fn.Return<Canary | undefined, CliFailure> {
  if (Option.isNone(canary)) {
    if (Option.isNone(canaryJobs) && Option.isNone(canaryPoints)) return undefined
    return yield* new CliFailure({
      message: "--canary-jobs and --canary-points need --canary.",
      hint: "Add the percentage of the jobs: --canary 10",
      code: "usage"
    })
  }
  const given = {
    percent: canary.value,
    ...(Option.isSome(canaryJobs) ? { minJobs: canaryJobs.value } : {}),
    ...(Option.isSome(canaryPoints) ? { maxPoints: canaryPoints.value } : {})
  }
  return yield* Effect.mapError(decode(given), ({ message }) =>
    new CliFailure({
      message: `The canary is invalid: ${message}`,
      hint: "--canary is 1 to 50 percent, --canary-jobs 1 to 100000, --canary-points 0 to 100.",
      code: "usage"
    }))
})
