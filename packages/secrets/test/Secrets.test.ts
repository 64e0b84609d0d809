import { assert, describe, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import { SecretName } from "@stint/contract/Secret"
import * as SecretStore from "@stint/store/SecretStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { inspect } from "node:util"
import * as Secrets from "../src/Secrets.ts"
import { type EncryptionKey, generate, SecretsKey, SecretsKeyError } from "../src/SecretsKey.ts"

const token = SecretName.make("hf-token")
const VALUE = "hf_0123456789abcdef"
const redacted = Redacted.make(VALUE)
const endpoint = (env: Parameters<Secrets.SecretsService["variablesOf"]>[0]["env"]) => ({ id: EndpointId.make("llm"), env })
const uses = endpoint({ HF_TOKEN: { secret: token }, MODE: "eu" })

/** Keys in a file that a test can read, replace and lose. */
const makeKeys = (initial: ReadonlyArray<EncryptionKey> = [], isWritable = true) => {
  const file = { keys: initial, writes: [] as Array<ReadonlyArray<string>>, failAt: Infinity }
  const write = (keys: ReadonlyArray<EncryptionKey>) =>
    Effect.suspend(() => {
      if (file.writes.length >= file.failAt) return Effect.fail(new SecretsKeyError({ message: "The disk is away.", hint: "" }))
      file.keys = keys
      file.writes.push(keys.map(({ id }) => id))
      return Effect.void
    })
  const service = SecretsKey.of({
    place: "the file /keys",
    read: Effect.sync(() => file.keys),
    write: isWritable ? write : undefined
  })
  return { file, service }
}

/** A platform that starts with this store and these keys. */
const open = (store: SecretStore.SecretStore["Service"], keys: SecretsKey["Service"]) =>
  Effect.scoped(Effect.map(
    Layer.build(
      Secrets.layer.pipe(Layer.provide([Layer.succeed(SecretStore.SecretStore, store), Layer.succeed(SecretsKey, keys)]))
    ),
    (context) => Context.get(context, Secrets.Secrets)
  ))

const newStore = Effect.scoped(
  Effect.map(Layer.build(SecretStore.layerMemory), (context) => Context.get(context, SecretStore.SecretStore))
)

describe("secrets", () => {
  it.effect("are encrypted in the store, and decrypted again by the next platform with the same key", () =>
    Effect.gen(function*() {
      const store = yield* newStore
      const { file, service } = makeKeys()
      const secrets = yield* open(store, service)
      assert.deepStrictEqual(file.writes, [], "no key is generated before the first secret")
      const { changed, version } = yield* secrets.set(token, redacted)
      assert.isTrue(changed)
      assert.strictEqual(file.writes.length, 1)
      const stored = yield* store.list
      assert.notInclude(JSON.stringify(stored), VALUE)
      assert.notInclude(inspect([secrets.list(), stored], { depth: 9 }), VALUE)

      const next = yield* open(store, service)
      assert.deepStrictEqual(next.list(), secrets.list())
      assert.strictEqual(next.versionOf("hf-token"), version)
      assert.deepStrictEqual(next.variablesOf(uses), { _tag: "Resolved", env: { HF_TOKEN: VALUE, MODE: "eu" } })
    }))

  it.effect("get a new version only for a new value, or when they are created again after a deletion", () =>
    Effect.gen(function*() {
      const secrets = yield* open(yield* newStore, makeKeys().service)
      const versions = new Set<string | undefined>()
      for (const value of ["first-value", "second-value", "first-value"]) {
        assert.isTrue((yield* secrets.set(token, Redacted.make(value))).changed)
        const revision = secrets.revision()
        assert.isFalse((yield* secrets.set(token, Redacted.make(value))).changed)
        assert.strictEqual(secrets.revision(), revision)
        versions.add(secrets.versionOf(token))
      }
      assert.isTrue(yield* secrets.remove(token))
      assert.isFalse(yield* secrets.remove(token))
      assert.strictEqual(secrets.versionOf(token), undefined)
      yield* secrets.set(token, Redacted.make("first-value"))
      versions.add(secrets.versionOf(token))
      assert.strictEqual(versions.size, 4)
    }))

  it.effect("that do not exist are reported with the variable that refers to them", () =>
    Effect.gen(function*() {
      const secrets = yield* open(yield* newStore, makeKeys().service)
      assert.deepStrictEqual(secrets.variablesOf(uses), { _tag: "Missing", variable: "HF_TOKEN", secret: token })
      // A name of Object's prototype is not a secret.
      assert.strictEqual(secrets.variablesOf(endpoint({ A: { secret: SecretName.make("constructor") } }))._tag, "Missing")
      const plain = { MODE: "eu" }
      const resolved = secrets.variablesOf(endpoint(plain))
      assert.strictEqual(resolved._tag === "Resolved" && resolved.env, plain)
    }))

  it.effect("are masked for the endpoints that use them, including the values that their workers received earlier", () =>
    Effect.gen(function*() {
      const secrets = yield* open(yield* newStore, makeKeys().service)
      assert.strictEqual(secrets.maskOf(endpoint({ MODE: "eu" })), undefined)
      yield* secrets.set(token, redacted)
      assert.strictEqual(secrets.maskOf(uses)?.(`token ${VALUE}`), "token [secret hf-token]")
      assert.strictEqual(secrets.maskOf(endpoint({ MODE: VALUE })), undefined)
      secrets.variablesOf(uses)
      yield* secrets.set(token, Redacted.make("hf_another-value"))
      assert.strictEqual(secrets.maskOf(uses)?.(`${VALUE} hf_another-value`), "[secret hf-token] [secret hf-token]")
      // The endpoint no longer uses the secret, but its earlier workers still print.
      assert.strictEqual(secrets.maskOf(endpoint({}))?.(VALUE), "[secret hf-token]")
    }))

  it.effect("keep the earlier values of the 100 secrets that changed last", () =>
    Effect.gen(function*() {
      const secrets = yield* open(yield* newStore, makeKeys().service)
      yield* secrets.set(token, redacted)
      secrets.variablesOf(uses)
      yield* secrets.remove(token)
      const change = (n: number) => {
        const name = SecretName.make(`other-${n}`)
        return Effect.andThen(secrets.set(name, Redacted.make(`value of ${n}`)), secrets.remove(name))
      }
      for (let n = 0; n < 99; n++) yield* change(n)
      assert.strictEqual(secrets.maskOf(uses)?.(VALUE), "[secret hf-token]")
      yield* change(99)
      assert.strictEqual(secrets.maskOf(uses), undefined)
    }))

  it.effect("prevent a start with the wrong key or without a key, and the error says which key is where", () =>
    Effect.gen(function*() {
      const store = yield* newStore
      const right = makeKeys()
      yield* (yield* open(store, right.service)).set(token, redacted)
      const [used = ""] = right.file.writes[0] ?? []
      const other = yield* generate
      const wrong = yield* Effect.flip(open(store, makeKeys([other]).service))
      assert.strictEqual(
        wrong.message,
        `The secret "hf-token" was encrypted with the key ${used}, but the file /keys contains the key ${other.id}.`
      )
      const missing = yield* Effect.flip(open(store, makeKeys().service))
      assert.include(missing.message, "but the file /keys contains no key.")
      assert.strictEqual(missing._tag === "SecretsKeyError" && missing.hint.includes("stint secrets discard"), true)

      const records = yield* store.list
      yield* store.put(records.map((record) => ({ ...record, sealed: `${record.sealed.slice(0, -8)}AAAAAAA=` })))
      const damaged = yield* Effect.flip(open(store, right.service))
      assert.include(damaged.message, "its row in the database is damaged")
    }))

  it.effect("are re-encrypted when the key is rotated, without a new version", () =>
    Effect.gen(function*() {
      const store = yield* newStore
      const { file, service } = makeKeys()
      const secrets = yield* open(store, service)
      for (const name of ["a", "b"]) yield* secrets.set(SecretName.make(name), redacted)
      const before = secrets.list()
      const [old = ""] = file.writes[0] ?? []
      const rotated = yield* secrets.rotateKey
      assert.deepStrictEqual(rotated, { key: file.keys[0]?.id ?? "", place: "the file /keys", secrets: 2 })
      assert.deepStrictEqual(file.writes.slice(1), [[rotated.key, old], [rotated.key]])
      assert.deepStrictEqual((yield* store.list).map(({ key }) => key), [rotated.key, rotated.key])
      assert.deepStrictEqual(secrets.list(), before)
      assert.deepStrictEqual((yield* open(store, service)).variablesOf(uses)._tag, "Missing")
      assert.deepStrictEqual((yield* open(store, service)).list(), before)
    }))

  it.effect("survive a rotation that fails or is interrupted at any step", () =>
    Effect.gen(function*() {
      for (const failAt of [1, 2]) {
        const store = yield* newStore
        const { file, service } = makeKeys()
        const secrets = yield* open(store, service)
        yield* secrets.set(token, redacted)
        file.failAt = failAt
        assert.strictEqual((yield* Effect.flip(secrets.rotateKey)).message, "The disk is away.")
        file.failAt = Infinity
        const next = yield* open(store, service)
        assert.deepStrictEqual(next.variablesOf(uses), { _tag: "Resolved", env: { HF_TOKEN: VALUE, MODE: "eu" } })
        yield* next.rotateKey
        assert.strictEqual(file.keys.length, 1)
        assert.deepStrictEqual((yield* open(store, service)).variablesOf(uses)._tag, "Resolved")
      }
    }))

  it.effect("with an operator's key are re-encrypted with the first of two keys, and never with a generated one", () =>
    Effect.gen(function*() {
      const store = yield* newStore
      const [old, fresh] = [yield* generate, yield* generate]
      const { file, service } = makeKeys([old], false)
      const secrets = yield* open(store, service)
      yield* secrets.set(token, redacted)
      const refused = yield* Effect.flip(secrets.rotateKey)
      assert.strictEqual(refused._tag, "SecretsError")
      assert.include(refused.message, "the file /keys")
      file.keys = [fresh, old]
      assert.deepStrictEqual(yield* secrets.rotateKey, { key: fresh.id, place: "the file /keys", secrets: 1 })
      assert.deepStrictEqual(yield* secrets.rotateKey, { key: fresh.id, place: "the file /keys", secrets: 0 })
      file.keys = [fresh]
      assert.deepStrictEqual((yield* open(store, service)).variablesOf(uses)._tag, "Resolved")
    }))

  it.effect("are not set while their key is lost, because the next start would fail; a rotation rescues them", () =>
    Effect.gen(function*() {
      const store = yield* newStore
      const { file, service } = makeKeys()
      const secrets = yield* open(store, service)
      yield* secrets.set(token, redacted)
      file.keys = []
      const refused = yield* Effect.flip(secrets.set(SecretName.make("other"), redacted))
      assert.include(refused.message, "is no longer in the file /keys")
      yield* secrets.rotateKey
      yield* secrets.set(SecretName.make("other"), redacted)
      assert.strictEqual((yield* open(store, service)).list().length, 2)
    }))
})
