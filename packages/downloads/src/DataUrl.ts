/**
 * `data:` URLs (RFC 2397): small files inside the input itself. They need no request, so only the size limit applies.
 */

/** The file in a URL. */
export interface Data {
  readonly contentType: string | undefined
  readonly bytes: Uint8Array
}

const HEAD = /^data:([^,]*),/isu
const BASE64 = /^[a-z0-9+/_-]*={0,2}$/iu

/** Whether the text is a `data:` URL, which may be invalid. */
export const isDataUrl = (url: string): boolean => /^\s*data:/iu.test(url)

const percentDecoded = (text: string): Buffer =>
  Buffer.from(
    Buffer.from(text).toString("latin1").replaceAll(
      /%([0-9a-f]{2})/giu,
      (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))
    ),
    "latin1"
  )

/** Parses the URL. Undefined if it is not a `data:` URL or its base64 is invalid. */
export const parse = (url: string): Data | undefined => {
  const text = url.trim()
  const head = HEAD.exec(text)
  if (head === null) return undefined
  const [type = "", ...parameters] = (head[1] ?? "").split(";").map((part) => part.trim().toLowerCase())
  const contentType = type === "" ? undefined : type
  const fragment = text.indexOf("#")
  const body = percentDecoded(text.slice(head[0].length, fragment === -1 ? undefined : fragment))
  if (parameters.at(-1) !== "base64") return { contentType, bytes: body }
  const encoded = body.toString("latin1").replaceAll(/\s/gu, "")
  return BASE64.test(encoded) ? { contentType, bytes: Buffer.from(encoded, "base64") } : undefined
}
