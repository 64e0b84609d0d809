/**
 * How far the pull of a worker's image is.
 */
import * as Schema from "effect/Schema"

/** The progress of a pull. All numbers are 0 until the engine has named the image's layers. */
export const ImagePullProgress = Schema.Struct({
  layers: Schema.Natural,
  doneLayers: Schema.Natural,
  /** The size of the layers whose download has begun: an engine learns the size of a layer only then. */
  bytes: Schema.Natural,
  doneBytes: Schema.Natural
})
export type ImagePullProgress = typeof ImagePullProgress.Type

/** In the unit of the larger number, with one decimal below ten. */
const sizes = (done: number, all: number): string => {
  const [unit, size] = all < 999_500_000 ? ["MB", 1_000_000] as const : ["GB", 1_000_000_000] as const
  const digits = all / size < 9.95 ? 1 : 0
  return `${(done / size).toFixed(digits)} of ${(all / size).toFixed(digits)} ${unit}`
}

/** `2 of 5 layers, 12 of 80 MB` */
export const pullText = ({ bytes, doneBytes, doneLayers, layers }: ImagePullProgress): string =>
  layers === 0 ? "no layers yet" : `${doneLayers} of ${layers} layers${bytes === 0 ? "" : `, ${sizes(doneBytes, bytes)}`}`
