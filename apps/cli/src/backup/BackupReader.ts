/**
 * Reads the archive of a backup, and compares every file with its digest.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { createHash, hash } from "node:crypto"
import { createReadStream } from "node:fs"
import process from "node:process"
import { CliFailure } from "../CliFailure.ts"
import { AnyManifest, DATABASE, FORMAT, KEY_FILES, MANIFEST, Manifest, PAYLOADS, SUMS } from "./BackupFormat.ts"
import * as TarArchive from "./TarArchive.ts"

/** The manifest and the digests are read into memory. Both fit even with a million payloads. */
const MAX_SMALL = 256 * 1024 * 1024

/** A path below the payload folder: no segment starts with a dot. */
const PAYLOAD = /^payloads(\/[A-Za-z0-9][A-Za-z0-9._-]*)+$/

/** A file in a release's code. */
const RELEASE = /^releases\/[0-9a-f]{64}\/[A-Za-z0-9_][A-Za-z0-9._-]*$/

/** What a verified archive contains. */
export interface Contents {
  readonly manifest: Manifest
  readonly files: number
  readonly bytes: number
}

/** Receives the files while the archive is read. The digests are compared at the end, so nothing may be used before then. */
export interface Receiver {
  /** Called first. May fail to reject the backup. */
  readonly begin: (manifest: Manifest) => Promise<void>
  /** Must read the whole body. */
  readonly file: (name: string, body: AsyncIterable<Uint8Array>) => Promise<void>
}

/** Reads the archive without writing anything. */
export const verifyOnly: Receiver = {
  begin: () => Promise.resolve(),
  file: async (_, body) => {
    for await (const chunk of body) void chunk
  }
}

const parse = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Json))
const decodeManifest = Schema.decodeUnknownSync(Manifest)
const isAnyManifest = Schema.is(AnyManifest)

const damaged = (problem: string) =>
  new CliFailure({
    message: `The backup cannot be used: ${problem}.`,
    hint: "Nothing was changed. Use another copy of the backup, or an earlier one."
  })

const manifestOf = (text: string): Manifest => {
  const value = parse(text)
  if (isAnyManifest(value) && value.format > FORMAT) {
    throw new CliFailure({
      message: `The backup has format ${value.format}; this version of Stint supports up to ${FORMAT}.`,
      hint: `Restore it with Stint ${value.stint} or newer.`
    })
  }
  return decodeManifest(value)
}

const textOf = async ({ body, name, size }: TarArchive.TarEntry): Promise<string> => {
  if (size > MAX_SMALL) throw damaged(`${name} has ${size} bytes`)
  const chunks: Array<Buffer> = []
  for await (const chunk of body) chunks.push(chunk)
  return Buffer.concat(chunks).toString("utf8")
}

const isKnown = (name: string): boolean =>
  name === DATABASE || KEY_FILES.some((known) => known === name) ||
  PAYLOAD.test(name) || RELEASE.test(name)

const readAll = async (source: AsyncIterable<Uint8Array>, receiver: Receiver): Promise<Contents> => {
  const sums = new Map<string, string>()
  let manifest: Manifest | undefined
  let listed: string | undefined
  let bytes = 0
  for await (const entry of TarArchive.entries(source)) {
    const { body, name, size } = entry
    if (manifest === undefined) {
      if (name !== MANIFEST) throw damaged(`it is not a Stint backup: its first file is ${name}, not ${MANIFEST}`)
      const text = await textOf(entry)
      manifest = manifestOf(text)
      sums.set(name, hash("sha256", text, "hex"))
      await receiver.begin(manifest)
      continue
    }
    if (name === SUMS) {
      listed = await textOf(entry)
      continue
    }
    if (listed !== undefined || !isKnown(name) || sums.has(name)) throw damaged(`it contains the unexpected file ${name}`)
    const digest = createHash("sha256")
    const hashed = async function*() {
      for await (const chunk of body) {
        digest.update(chunk)
        yield chunk
      }
    }
    await receiver.file(name, hashed())
    sums.set(name, digest.digest("hex"))
    bytes += size
  }
  if (manifest === undefined || listed === undefined) throw damaged(`it is incomplete: ${SUMS} is missing`)
  const expected = new Map(listed.split("\n").filter((line) => line !== "").map((line) => [line.slice(66), line.slice(0, 64)]))
  for (const [name, digest] of sums) {
    if (expected.get(name) !== digest) throw damaged(`the content of ${name} does not match its SHA-256`)
  }
  const missing = [...expected.keys()].find((name) => !sums.has(name))
  if (missing !== undefined) throw damaged(`${missing} is missing`)
  if (!sums.has(DATABASE)) throw damaged(`${DATABASE} is missing`)
  return { manifest, files: [...sums.keys()].filter((name) => name.startsWith(PAYLOADS)).length, bytes }
}

/** Reads a whole archive; `-` is the standard input. Fails when a file is missing, damaged or unexpected, and when the receiver fails. */
export const read = (file: string, receiver: Receiver): Effect.Effect<Contents, CliFailure> =>
  Effect.tryPromise({
    try: () => readAll(file === "-" ? process.stdin : createReadStream(file, { highWaterMark: 1024 * 1024 }), receiver),
    catch: (cause) => {
      if (cause instanceof CliFailure) return cause
      const problem = cause instanceof Error ? cause.message : String(cause)
      // An operating-system error is about a file, not about the content of the archive.
      return cause instanceof Error && "syscall" in cause
        ? new CliFailure({ message: `A file cannot be read or written: ${problem}`, hint: "Nothing was changed." })
        : damaged(problem)
    }
  })
