/**
 * Converts photos to thumbnails.
 *
 * Input:   `{ images: [...], width?, height?, fit?, format? }`. An image is an http(s) or data: URL, or base64 text.
 * Output:  `{ thumbnails: [{ image, width, height, bytes, type }] }`, `image` as a data: URL, in the order of the input.
 *
 * Reads images one at a time, up to 20 MB each, so that a malicious list cannot exhaust memory. Rejects URLs in private networks, so that
 * callers cannot use this worker to read internal servers.
 */
import * as sdk from "@stint/sdk"
import { readFile, rm } from "node:fs/promises"
import sharp from "sharp"

interface Input {
  readonly images: ReadonlyArray<string>
  readonly width?: number
  readonly height?: number
  readonly fit?: "cover" | "contain" | "inside"
  readonly format?: "jpeg" | "png" | "webp"
}

const LIMIT = 20 * 1024 * 1024
const FITS = ["cover", "contain", "inside"]
const FORMATS = ["jpeg", "png", "webp"]

const tooLarge = (where: string) => new Error(`${where} is larger than 20 MB; send a smaller image`)

/** Describes what is wrong with an input. Undefined if it is valid. */
const problemOf = ({ fit, format, height, images, width }: Partial<Input>): string | undefined => {
  if (!Array.isArray(images) || images.length === 0) return "images must be a list with at least one URL or base64 photo"
  if (images.some((image) => typeof image !== "string" || image === "")) return "every image must be a URL or base64 text"
  for (const [name, size] of Object.entries({ width, height })) {
    if (size !== undefined && !(Number.isInteger(size) && size >= 1 && size <= 4096)) {
      return `${name} must be an integer from 1 to 4096`
    }
  }
  if (fit !== undefined && !FITS.includes(fit)) return `fit must be one of ${FITS.join(", ")}`
  if (format !== undefined && !FORMATS.includes(format)) return `format must be one of ${FORMATS.join(", ")}`
  return undefined
}

const download = async (job: string, url: string): Promise<Uint8Array> => {
  const [path = ""] = await sdk.utils.download_files_from_urls(job, url, { maxBytes: LIMIT })
  try {
    return await readFile(path)
  } finally {
    await rm(path, { force: true })
  }
}

const read = async (job: string, image: string): Promise<Uint8Array> => {
  if (/^https?:/i.test(image)) return download(job, image)
  const base64 = image.startsWith("data:") ? image.slice(image.indexOf(",") + 1) : image
  if (base64.length > LIMIT * 1.4) throw tooLarge("an image")
  return Buffer.from(base64, "base64")
}

sdk.serverless.start({
  handler: async (job: { id: string; input: Input }) => {
    const problem = problemOf(job.input)
    if (problem !== undefined) return { error: problem }
    const { fit = "inside", format = "jpeg", height, images, width = height === undefined ? 256 : undefined } = job.input
    const thumbnails = []
    for (const image of images) {
      const photo = await read(job.id, image)
      // `rotate` without an angle turns the photo upright according to its EXIF data, because the output does not contain that data.
      const { data, info } = await sharp(photo).rotate().resize({ width, height, fit, withoutEnlargement: true })
        .toFormat(format).toBuffer({ resolveWithObject: true })
      const type = `image/${format}`
      thumbnails.push({
        image: `data:${type};base64,${data.toString("base64")}`,
        width: info.width,
        height: info.height,
        bytes: info.size,
        type
      })
    }
    return { thumbnails }
  }
})
