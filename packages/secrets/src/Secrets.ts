/**
 * The platform's secrets: encrypted in the store, decrypted in this process's memory.
 *
 * ```
 *   set --encrypt--> SecretStore           start --decrypt all--> memory
 *    |                                                              |
 *    +--new version--> fingerprint of the workers <--versionOf------+
 *                                                                   +--> variablesOf: the environment of a worker that starts
 *                                                                   +--> maskOf: hides the values in what workers print and report
 * ```
 *
 * Without `Nodes`, only this process writes to the store, so memory and store agree. With `Nodes`, memory is refreshed from the store every 5 s:
 * a change reaches the other nodes within that time. The key is read only if the store has secrets or when one is set, so a platform without
 * secrets needs no key.
 */
import { type Endpoint, secretsIn } from "@stint/contract/Endpoint"
import type { EndpointId } from "@stint/contract/Ids"
import type { SecretName } from "@stint/contract/Secret"
import { Nodes } from "@stint/store/Nodes"
import * as OutageLog from "@stint/store/OutageLog"
import { type SecretRecord, SecretStore } from "@stint/store/SecretStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { randomBytes } from "node:crypto"
import * as SecretCipher from "./SecretCipher.ts"
import * as SecretMask from "./SecretMask.ts"
import { type EncryptionKey, generate, SecretsKey, SecretsKeyError } from "./SecretsKey.ts"

/** The request cannot be carried out. Repeating it would also fail. */
export class SecretsError extends Schema.TaggedError<SecretsError>()("SecretsError", {
  message: Schema.String,
  hint: Schema.String
}) {}

/** A secret without its value. */
export type StoredSecret = Pick<SecretRecord, "name" | "version" | "createdAt" | "updatedAt">

/** The variables of an endpoint with values in place of references, or the first reference to a secret that does not exist. */
export type WorkerVariables =
  | { readonly _tag: "Resolved"; readonly env: Readonly<Record<string, string>> }
  | { readonly _tag: "Missing"; readonly variable: string; readonly secret: SecretName }

/** The result of a key rotation. */
export interface KeyRotation {
  readonly key: string
  readonly place: string
  readonly secrets: number
}

type UsingSecrets = Pick<Endpoint, "id" | "env">

/** The operations on secrets. Those that return no Effect read memory. */
export interface SecretsService {
  /** All secrets, ordered by name. */
  readonly list: () => ReadonlyArray<StoredSecret>
  /** Creates a secret or replaces its value. The version does not change if the value is the same. */
  readonly set: (
    name: SecretName,
    value: Redacted.Redacted
  ) => Effect.Effect<StoredSecret & { readonly changed: boolean }, SecretsError | SecretsKeyError | StoreError>
  /** Returns whether the secret existed. */
  readonly remove: (name: SecretName) => Effect.Effect<boolean, StoreError>
  /** Encrypts all secrets with another key. Their versions do not change. */
  readonly rotateKey: Effect.Effect<KeyRotation, SecretsError | SecretsKeyError | StoreError>
  /** Increases with every change to a secret. */
  readonly revision: () => number
  /** Undefined for an unknown secret. */
  readonly versionOf: (name: string) => string | undefined
  /** The value, for the platform's own use. Undefined for an unknown secret. */
  readonly valueOf: (name: SecretName) => Redacted.Redacted | undefined
  /** The variables for a worker that starts now. Remembers the secrets, so that `maskOf` hides them as long as this process runs. */
  readonly variablesOf: (endpoint: UsingSecrets) => WorkerVariables
  /** Hides the current and earlier values of the secrets that the endpoint uses or has used. Undefined when there are none. */
  readonly maskOf: (endpoint: UsingSecrets) => SecretMask.Mask | undefined
}

/** The number of earlier values of a secret that are masked, because workers with long-running jobs may still have them. */
const EARLIER_VALUES = 20

/** The number of secrets whose earlier values are kept, so that a caller that creates and deletes many secrets cannot fill the memory. */
const EARLIER_SECRETS = 100

const isPlain = (env: Endpoint["env"]): env is Readonly<Record<string, string>> =>
  Object.values(env).every((value) => typeof value === "string")

const noStore = Effect.fail(
  new SecretsError({
    message: "This platform has no store of secrets.",
    hint: "Provide `Secrets.layer` with a `SecretStore` and a `SecretsKey`, or pass plain values in `env`."
  })
)

/** Default: a platform without secrets. */
export const Secrets = Context.Reference<SecretsService>("@stint/secrets/Secrets", {
  defaultValue: () => ({
    list: () => [],
    set: () => noStore,
    remove: () => Effect.succeed(false),
    rotateKey: noStore,
    revision: () => 0,
    versionOf: () => undefined,
    valueOf: () => undefined,
    variablesOf: ({ env }) => {
      if (isPlain(env)) return { _tag: "Resolved", env }
      const [variable = "", secret] = secretsIn(env)[0] ?? []
      return secret === undefined ? { _tag: "Resolved", env: {} } : { _tag: "Missing", variable, secret }
    },
    maskOf: () => undefined
  })
})

const LOST_KEY =
  "Put the key back. It is not part of backups, so copy it from where you keep it. If it is lost, run `stint secrets discard` " +
  "while the platform is stopped, and set the secrets again."

const namesOf = (keys: ReadonlyArray<EncryptionKey>): string => keys.map(({ id }) => id).join(" and ")

/** The value of a stored secret. Fails when no key decrypts it. */
const decrypt = (record: SecretRecord, keys: ReadonlyArray<EncryptionKey>, place: string) => {
  const key = keys.find(({ id }) => id === record.key)
  if (key === undefined) {
    return Effect.fail(
      new SecretsKeyError({
        message: `The secret "${record.name}" was encrypted with the key ${record.key}, but ${place} contains ${
          keys.length === 0 ? "no key" : `the key ${namesOf(keys)}`
        }.`,
        hint: LOST_KEY
      })
    )
  }
  const value = SecretCipher.open(key, record.name, record.sealed)
  return value === undefined
    ? Effect.fail(
      new SecretsKeyError({
        message:
          `The secret "${record.name}" cannot be decrypted, although ${place} contains its key ${key.id}: its row in the database is damaged.`,
        hint:
          "Restore the database from a backup. If there is none, run `stint secrets discard` while the platform is stopped, and set the secrets again."
      })
    )
    : Effect.succeed(Redacted.make(value))
}

interface Known {
  readonly record: SecretRecord
  readonly value: Redacted.Redacted
}

const shown = ({ record: { createdAt, name, updatedAt, version } }: Known): StoredSecret => ({
  name,
  version,
  createdAt,
  updatedAt
})

/** How often to look for changes by other nodes. They appear within five seconds, because a list of the store may be 1.25 s old. */
const REFRESH = "3750 millis"

const make = Effect.gen(function*() {
  const store = yield* SecretStore
  const source = yield* SecretsKey
  const changing = yield* Semaphore.make(1)
  let revision = 0
  /** Ordered by name, as the store returns them. */
  let known: ReadonlyMap<string, Known> = new Map()
  /** Replaced and deleted values, by the name of their secret; the secret that changed last comes last. */
  const earlier = new Map<string, ReadonlyArray<string>>()
  /** The names of the secrets that an endpoint's workers have received. */
  const received = new Map<EndpointId, Set<string>>()

  const stored = yield* store.list
  if (stored.length > 0) {
    const keys = yield* source.read
    const decrypted = yield* Effect.forEach(
      stored,
      (record) =>
        Effect.map(decrypt(record, keys, source.place), (value): readonly [string, Known] => [record.name, { record, value }])
    )
    known = new Map(decrypted)
  }

  const change = (next: ReadonlyMap<string, Known>) => {
    known = new Map([...next].sort(([a], [b]) => (a < b ? -1 : 1)))
    revision += 1
  }

  const retire = ({ record: { name }, value }: Known) => {
    const values = earlier.get(name) ?? []
    earlier.delete(name)
    earlier.set(name, [Redacted.value(value), ...values].slice(0, EARLIER_VALUES))
    const [oldest] = earlier.keys()
    if (earlier.size > EARLIER_SECRETS && oldest !== undefined) earlier.delete(oldest)
  }

  /** The key for a new value. Generates one for the first secret. */
  const currentKey = Effect.gen(function*() {
    const keys = yield* source.read
    const orphaned = [...known.values()].find(({ record }) => !keys.some(({ id }) => id === record.key))
    if (orphaned !== undefined) {
      return yield* new SecretsKeyError({
        message: `The key ${orphaned.record.key} of the stored secrets is no longer in ${source.place}.`,
        hint:
          "Put it back. If it is lost, run `stint secrets rotate-key` before you stop the platform: it encrypts all secrets with another key."
      })
    }
    const [current] = keys
    if (current !== undefined) return current
    const fresh = yield* generate
    if (source.write !== undefined) yield* source.write([fresh])
    return fresh
  })

  const set: SecretsService["set"] = Effect.fnUntraced(function*(name, value) {
    const before = known.get(name)
    if (before !== undefined && Redacted.value(before.value) === Redacted.value(value)) {
      return { ...shown(before), changed: false }
    }
    const key = yield* currentKey
    const now = yield* Clock.currentTimeMillis
    const record: SecretRecord = {
      name,
      version: randomBytes(8).toString("hex"),
      createdAt: before?.record.createdAt ?? now,
      updatedAt: now,
      key: key.id,
      sealed: SecretCipher.seal(key, name, Redacted.value(value))
    }
    yield* store.put([record])
    if (before !== undefined) retire(before)
    change(new Map(known).set(name, { record, value }))
    return { ...shown({ record, value }), changed: true }
  })

  const remove: SecretsService["remove"] = Effect.fnUntraced(function*(name) {
    const existed = yield* store.remove(name)
    const before = known.get(name)
    if (before === undefined) return existed
    retire(before)
    change(new Map([...known].filter(([other]) => other !== name)))
    return existed
  })

  /** Re-encrypts the values from memory, so that this works even if the old key is lost. */
  const seal = Effect.fnUntraced(function*(key: EncryptionKey) {
    const entries = [...known].map(([name, { record, value }]): readonly [string, Known] => [
      name,
      { value, record: { ...record, key: key.id, sealed: SecretCipher.seal(key, name, Redacted.value(value)) } }
    ])
    yield* store.put(entries.map(([, { record }]) => record))
    known = new Map(entries)
    return { key: key.id, place: source.place, secrets: entries.length }
  })

  const rotateKey = Effect.gen(function*() {
    const { place, write } = source
    if (write !== undefined) {
      const fresh = yield* generate
      // The old keys are kept until no secret needs them.
      yield* write([fresh, ...(yield* source.read)])
      const rotated = yield* seal(fresh)
      yield* write([fresh])
      return rotated
    }
    const keys = yield* source.read
    const [first] = keys
    if (first !== undefined && [...known.values()].some(({ record }) => record.key !== first.id)) return yield* seal(first)
    if (first !== undefined && keys.length > 1) return { key: first.id, place, secrets: 0 }
    return yield* new SecretsError({
      message: `The platform cannot replace the key in ${place}, which you provide, and it contains no other key.`,
      hint:
        "Add a new key before the old one, restart the platform if the key is in a variable, and run the command again. Then remove the old key."
    })
  })

  const variablesOf: SecretsService["variablesOf"] = ({ env, id }) => {
    if (isPlain(env)) return { _tag: "Resolved", env }
    const variables: Record<string, string> = {}
    const names = received.get(id) ?? new Set()
    received.set(id, names)
    for (const [variable, value] of Object.entries(env)) {
      if (typeof value === "string") {
        variables[variable] = value
        continue
      }
      const found = known.get(value.secret)
      if (found === undefined) return { _tag: "Missing", variable, secret: value.secret }
      variables[variable] = Redacted.value(found.value)
      names.add(value.secret)
    }
    return { _tag: "Resolved", env: variables }
  }

  const maskOf: SecretsService["maskOf"] = ({ env, id }) => {
    const names = new Set([...secretsIn(env).map(([, name]) => name), ...(received.get(id) ?? [])])
    if (names.size === 0) return undefined
    const values = new Map<string, string>()
    for (const name of names) {
      for (const value of earlier.get(name) ?? []) values.set(value, name)
      const found = known.get(name)
      if (found !== undefined) values.set(Redacted.value(found.value), name)
    }
    return SecretMask.make(values)
  }

  // A change in the store must reach memory, too.
  const exclusively = <A, E>(effect: Effect.Effect<A, E>) => changing.withPermit(Effect.uninterruptible(effect))

  /** Reads the changes that other nodes have made. */
  const refresh = exclusively(Effect.gen(function*() {
    const stored = yield* store.list
    const isKnown = ({ key, name, updatedAt, version }: SecretRecord) => {
      const record = known.get(name)?.record
      return record?.version === version && record.updatedAt === updatedAt && record.key === key
    }
    if (stored.length === known.size && stored.every(isKnown)) return
    const keys = yield* source.read
    const next = new Map<string, Known>()
    for (const record of stored) {
      next.set(record.name, { record, value: yield* decrypt(record, keys, source.place) })
    }
    for (const [name, one] of known) if (next.get(name)?.record.version !== one.record.version) retire(one)
    change(next)
  }))
  if (Option.isSome(yield* Effect.serviceOption(Nodes))) {
    const outage = OutageLog.make({
      onFailure: (problem) =>
        Effect.logWarning(`The secrets cannot be refreshed: ${problem} The platform continues with the values that it read last.`)
    })
    yield* Effect.forkScoped(Effect.repeat(outage.watch(refresh), Schedule.spaced(REFRESH)))
  }

  const service: SecretsService = {
    list: () => [...known.values()].map(shown),
    set: (name, value) => exclusively(set(name, value)),
    remove: (name) => exclusively(remove(name)),
    rotateKey: exclusively(rotateKey),
    revision: () => revision,
    versionOf: (name) => known.get(name)?.record.version,
    valueOf: (name) => known.get(name)?.value,
    variablesOf,
    maskOf
  }
  return service
})

/** The secrets of a store. Fails when the key does not decrypt all of them. */
export const layer: Layer.Layer<never, SecretsKeyError | StoreError, SecretStore | SecretsKey> = Layer.effect(Secrets, make)
