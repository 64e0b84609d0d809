/**
 * The stores, which put large payloads into the configured payload store.
 *
 * `payloads.json` in the data folder records the location of this platform's large payloads and the owner name under which they are stored. Nodes
 * that share a database share one record in it, because their rows refer to the same payloads and a node also removes the orphans of ended nodes.
 * Without the payload store, or with a different one, the platform could neither run nor show the jobs, so it refuses to start.
 */
import { DirectoryPayloadStore } from "@stint/payloads"
import { S3PayloadStore } from "@stint/payloads-s3"
import type { PayloadError } from "@stint/payloads/PayloadError"
import * as Payloads from "@stint/payloads/Payloads"
import { PayloadKey, PayloadStore } from "@stint/payloads/PayloadStore"
import { bytesInWords } from "@stint/server/Limits"
import type { JobStore } from "@stint/store/JobStore"
import { SharedSettings } from "@stint/store/SharedSettings"
import type { StoreError } from "@stint/store/StoreError"
import type { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import { randomUUID } from "node:crypto"
import { mkdir, open, readFile, rename } from "node:fs/promises"
import { dirname, join } from "node:path"
import { CliFailure } from "../CliFailure.ts"
import type { PayloadLocation, PayloadSettings } from "../config/PayloadConfig.ts"

/** The content of `payloads.json`. */
const Record = Schema.Struct({ owner: PayloadKey, location: Schema.String })

const RecordText = Schema.fromJsonString(Record)

/** A location's name for comparison, without the parts that may change while the objects stay in the same place. */
export const nameOf = (location: PayloadLocation): string =>
  location._tag === "Directory"
    ? `dir:${location.folder}`
    : `s3://${location.bucket}/${location.prefix}${location.endpoint === undefined ? "" : ` at ${location.endpoint}`}`

const unreadable = (file: string, problem: string) =>
  new CliFailure({
    message: `The file ${file} cannot be used: ${problem}.`,
    hint: "It records the location of this platform's large payloads. Restore it from a backup of the data folder."
  })

/** The text of a file; undefined when the file does not exist. */
const textOf = async (file: string): Promise<string | undefined> => {
  try {
    return await readFile(file, "utf8")
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined
    throw error
  }
}

const decodeRecord = Schema.decodeEffect(RecordText)

/** The record in a file; None when the file does not exist. */
export const read = Effect.fnUntraced(function*(file: string): Effect.fn.Return<Option.Option<typeof Record.Type>, CliFailure> {
  const text = yield* Effect.tryPromise({ try: () => textOf(file), catch: (error) => unreadable(file, String(error)) })
  if (text === undefined) return Option.none()
  return Option.some(yield* Effect.mapError(decodeRecord(text), ({ message }) => unreadable(file, message)))
})

const write = (file: string, record: typeof Record.Type): Effect.Effect<void, CliFailure> =>
  Effect.tryPromise({
    try: async () => {
      await mkdir(dirname(file), { recursive: true, mode: 0o700 })
      const handle = await open(`${file}.new`, "w", 0o600)
      try {
        await handle.writeFile(`${JSON.stringify(record, null, 2)}\n`)
        await handle.sync()
      } finally {
        await handle.close()
      }
      await rename(`${file}.new`, file)
    },
    catch: (error) => unreadable(file, String(error))
  })

/** Where the record is. */
interface Place {
  /** In words. */
  readonly name: string
  readonly read: Effect.Effect<Option.Option<typeof Record.Type>, CliFailure | StoreError>
  /** Stores a record unless there is one. Returns the stored one. */
  readonly settle: (record: typeof Record.Type) => Effect.Effect<typeof Record.Type, CliFailure | StoreError>
}

/** The record's name in the settings that all nodes share. */
export const SETTING = "payloads"

/** The record of all nodes. A record in the data folder, which an earlier version may have written, becomes the record of all nodes. */
const inDatabase = ({ get, settle }: SharedSettings["Service"], file: string): Place => {
  const name = `the row shared.${SETTING} of the table stint.settings`
  const decode = (text: string) => Effect.mapError(decodeRecord(text), ({ message }) => unreadable(name, message))
  return {
    name,
    read: Effect.flatMap(
      get(SETTING),
      (text) => text === undefined ? read(file) : Effect.map(decode(text), Option.some)
    ),
    settle: (record) => Effect.flatMap(settle(SETTING, JSON.stringify(record)), decode)
  }
}

const inFile = (file: string): Place => ({
  name: file,
  read: read(file),
  settle: (record) =>
    Effect.flatMap(
      read(file),
      Option.match({ onNone: () => Effect.as(write(file, record), record), onSome: Effect.succeed })
    )
})

const placeOf = (file: string): Effect.Effect<Place> =>
  Effect.map(
    Effect.serviceOption(SharedSettings),
    Option.match({ onNone: () => inFile(file), onSome: (settings) => inDatabase(settings, file) })
  )

/** The platform's owner name in its payload store: the recorded name, or a new one. */
const ownerOf = Effect.fnUntraced(function*(file: string, location: PayloadLocation) {
  const place = yield* placeOf(file)
  const name = nameOf(location)
  const known = Option.getOrElse(yield* place.read, () => ({ owner: PayloadKey.make(`stint-${randomUUID()}`), location: name }))
  const record = known.location === name ? yield* place.settle(known) : known
  if (record.location === name) return record.owner
  return yield* new CliFailure({
    message: `The large payloads of this platform are in ${record.location}, but STINT_PAYLOADS is ${name}.`,
    hint:
      `Set STINT_PAYLOADS to its previous value. To move the payloads, stop the platform, copy everything below ${record.owner} to the new location, and write the new location into ${place.name}.`
  })
})

/** Refuses to start without a payload store while rows may refer to payloads in one. */
const layerWithoutStore = (file: string) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const place = yield* placeOf(file)
    const known = Option.getOrUndefined(yield* place.read)
    if (known === undefined) return
    return yield* new CliFailure({
      message: `Large payloads of this platform are in ${known.location}, and STINT_PAYLOADS is not set.`,
      hint:
        `Set STINT_PAYLOADS to its previous value. To store payloads in the database from now on, also set STINT_PAYLOADS_THRESHOLD to 200 MiB, and delete ${place.name} after the last job with a large payload has been removed.`
    })
  }))

const layerStore = (location: PayloadLocation): Layer.Layer<PayloadStore, PayloadError> =>
  location._tag === "Directory" ? DirectoryPayloadStore.layer(location) : S3PayloadStore.layer(location)

/** An in-memory platform deletes its objects when it stops. */
const layerRemoveOnClose = (owner: PayloadKey) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const store = yield* PayloadStore
    yield* Effect.addFinalizer(() =>
      store.list(owner).pipe(
        Stream.mapEffect((key) => store.remove(key), { concurrency: 8 }),
        Stream.runDrain,
        Effect.timeoutOption("10 seconds"),
        Effect.ignore
      )
    )
  }))

/** The stores, with a payload store if one is configured. */
export const layer = <A, E>(
  stores: Layer.Layer<A | JobStore | WebhookStore, E>,
  { location, threshold }: Pick<PayloadSettings, "location" | "threshold">,
  { dataDir, isPersistent, sweepLock }: {
    readonly dataDir: string
    readonly isPersistent: boolean
    /** Held while orphaned payloads are removed. */
    readonly sweepLock: Semaphore.Semaphore
  }
): Layer.Layer<A | JobStore | WebhookStore, E | PayloadError | CliFailure | StoreError> => {
  const file = join(dataDir, "payloads.json")
  if (Option.isNone(location)) return isPersistent ? layerWithoutStore(file).pipe(Layer.provideMerge(stores)) : stores
  const place = location.value
  return Layer.unwrap(Effect.gen(function*() {
    const owner = isPersistent ? yield* ownerOf(file, place) : PayloadKey.make(`memory-${randomUUID()}`)
    const store = layerStore(place)
    const announced = Layer.effectDiscard(
      Effect.flatMap(
        PayloadStore,
        ({ description }) =>
          Effect.logInfo(`Inputs and outputs of more than ${bytesInWords(threshold)} are stored in ${description}.`)
      )
    )
    const payloads = Payloads.layer({ owner, threshold, sweep: { lock: sweepLock } }).pipe(
      Layer.provideMerge(store)
    )
    return isPersistent
      ? payloads.pipe(Layer.merge(announced.pipe(Layer.provide(store))))
      : payloads.pipe(Layer.merge(Layer.merge(announced, layerRemoveOnClose(owner)).pipe(Layer.provide(store))))
  })).pipe(Layer.provideMerge(stores))
}
