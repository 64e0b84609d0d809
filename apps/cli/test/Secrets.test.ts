/**
 * Where the key that encrypts the secrets is, and that no file contains a value. `Secrets.long.test.ts` runs a whole platform.
 */
import { SecretName } from "@stint/contract/Secret"
import { layer as layerSecrets, Secrets } from "@stint/secrets/Secrets"
import * as SecretsKey from "@stint/secrets/SecretsKey"
import * as Sqlite from "@stint/store-sqlite"
import * as StoppedDatabase from "@stint/store-sqlite/StoppedDatabase"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import { randomBytes } from "node:crypto"
import { existsSync } from "node:fs"
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import * as BackupWriter from "../src/backup/BackupWriter.ts"
import * as SecretsKeyConfig from "../src/config/SecretsKeyConfig.ts"
import { runCommand } from "./CommandInProcess.ts"

const NAME = SecretName.make("hf-token")

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "stint-secrets-"))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const folder = async (name: string): Promise<string> => {
  const path = join(root, name)
  await mkdir(path, { mode: 0o700 })
  return path
}

/** Runs an effect with the secrets of a data folder, whose database it opens and closes. */
const withSecrets = <A, E>(dataDir: string, body: Effect.Effect<A, E>, key = SecretsKeyConfig.generated(dataDir)) =>
  Effect.runPromise(
    body.pipe(
      Effect.provide(layerSecrets.pipe(
        Layer.provide(Layer.succeed(SecretsKey.SecretsKey, key)),
        Layer.provide(Sqlite.layer({ file: join(dataDir, "stint.db"), durability: "D1" }))
      ))
    )
  )

const set = (value: string) => Effect.flatMap(Secrets, ({ set }) => set(NAME, Redacted.make(value)))

const settings = (env: { readonly file?: string; readonly value?: string }): SecretsKeyConfig.SecretsKeySettings => ({
  file: Option.fromUndefinedOr(env.file),
  value: Option.map(Option.fromUndefinedOr(env.value), (value) => Redacted.make(value))
})

describe("the key that encrypts the secrets", () => {
  it("is generated with the first secret, in a file that only its owner can read, and is not part of a backup", async () => {
    const dataDir = await folder("generated")
    await withSecrets(dataDir, Effect.void)
    const file = join(dataDir, "secrets-key")
    expect(existsSync(file)).toBe(false)
    await withSecrets(dataDir, set("hf_0123456789"))
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    const key = (await readFile(file, "utf8")).trim()
    expect(Buffer.from(key, "base64")).toHaveLength(32)

    const database = await Effect.runPromise(StoppedDatabase.backup(join(dataDir, "stint.db"), join(root, "copy.db")))
    const parts: Array<Uint8Array> = []
    for await (const part of BackupWriter.write({ dataDir, database, settings: { settings: {}, secrets: [] } })) parts.push(part)
    const archive = Buffer.concat(parts)
    expect(archive.includes("CREATE TABLE secrets")).toBe(true)
    expect(archive.includes(key)).toBe(false)
    expect(archive.includes("secrets-key")).toBe(false)
    expect(archive.includes("hf_0123456789")).toBe(false)
  })

  it("is read from the operator's file or variable, and a mistake there is an error that says what to do", async () => {
    const dataDir = await folder("configured")
    const file = join(root, "key")
    const resolve = (env: Parameters<typeof settings>[0]) =>
      Effect.runPromise(SecretsKeyConfig.resolveFor(settings(env), dataDir))
    const failure = (env: Parameters<typeof settings>[0]) =>
      Effect.runPromise(Effect.flip(SecretsKeyConfig.resolveFor(settings(env), dataDir)))

    expect((await failure({ file })).message).toBe(`${file} does not exist or is empty.`)
    await writeFile(file, "too short\n")
    expect(await failure({ file })).toMatchObject({
      message: `There is no key for secrets in the file ${file}.`,
      hint: expect.stringContaining("openssl rand -base64 32")
    })
    const wrong = await failure({ value: "not-a-key-but-secret" })
    expect(`${wrong.message} ${wrong.hint}`).not.toContain("not-a-key")
    expect(wrong.message).toContain("the variable STINT_SECRETS_KEY")

    const text = randomBytes(32).toString("base64")
    await writeFile(file, `${text}\n`)
    const [fromFile, fromVariable] = [await resolve({ file }), await resolve({ value: text })]
    expect([fromFile.write, fromVariable.write]).toEqual([undefined, undefined])
    await withSecrets(dataDir, set("hf_0123456789"), fromFile)
    const names = withSecrets(dataDir, Effect.map(Secrets, ({ list }) => list().map(({ name }) => name)), fromVariable)
    expect(await names).toEqual(["hf-token"])
    expect(await readdir(dataDir)).not.toContain("secrets-key")

    const both = await runCommand(["secrets", "list"], { env: { STINT_SECRETS_KEY: text, STINT_SECRETS_KEY_FILE: file } })
    expect(both.stderr).toContain("Both STINT_SECRETS_KEY_FILE and STINT_SECRETS_KEY are set.")
  })
})

describe("the database", () => {
  it("contains no secret's value, before and after a checkpoint, even after the value and the key have been replaced", async () => {
    const dataDir = await folder("canary")
    const values = [0, 1].map(() => `hf_${randomBytes(24).toString("hex")}`)
    const holders = async (text: string) => {
      const names = await readdir(dataDir)
      const contents = await Promise.all(names.map((name) => readFile(join(dataDir, name))))
      return names.filter((_, at) => contents[at]?.includes(text))
    }
    const search = Effect.promise(async () => {
      expect((await Promise.all(values.map(holders))).flat()).toEqual([])
      // Shows that the search works: the name is not secret.
      expect((await holders("hf-token")).length).toBeGreaterThan(0)
    })
    await withSecrets(
      dataDir,
      Effect.gen(function*() {
        for (const value of values) yield* set(value)
        yield* search
        yield* Effect.flatMap(Secrets, ({ rotateKey }) => rotateKey)
        yield* search
      })
    )
    await Effect.runPromise(search)
  })

  it("of a stopped platform whose key is lost works again after its secrets have been discarded", async () => {
    const dataDir = await folder("lost")
    await withSecrets(dataDir, set("hf_0123456789"))
    await rm(join(dataDir, "secrets-key"))
    await expect(withSecrets(dataDir, Effect.void)).rejects.toThrow(
      /was encrypted with the key [0-9a-f]{12}, but the file .* contains no key\./
    )
    const env = { STINT_DATA_DIR: dataDir }
    expect((await runCommand(["secrets", "discard"], { env })).stderr).toContain("stint secrets discard --yes")
    expect(await runCommand(["secrets", "discard", "--yes"], { env })).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("Deleted hf-token.")
    })
    expect(await withSecrets(dataDir, set("hf_9876543210"))).toMatchObject({ changed: true })
  })
})

describe("stint secrets set and endpoints create", () => {
  const env = { STINT_URL: "http://127.0.0.1:9", STINT_API_KEY: "a-key-for-this-test" }

  it("take no value as an argument and no empty value, and repeat no value in an error", async () => {
    const value = "hf_0123456789"
    const cases: ReadonlyArray<readonly [args: ReadonlyArray<string>, stdin: string, expected: string]> = [
      [["secrets", "set", "hf-token", value], "", ""],
      [["secrets", "set", "hf-token"], "\n", "The value is empty."],
      [["secrets", "set", "hf token"], value, "is not a valid name for a secret."],
      [["secrets", "set", "hf-token"], value.repeat(10_000), "more than 65536 bytes"],
      [["secrets", "set", "hf-token", "--value-file", join(root, "none")], "", "cannot be read from"]
    ]
    for (const [args, stdin, expected] of cases) {
      const { code, stderr, stdout } = await runCommand(args, { env, stdin })
      expect(code, args.join(" ")).not.toBe(0)
      expect(stderr).toContain(expected)
      if (args.length < 4) expect(stderr + stdout).not.toContain(value)
    }
  })

  it("name a reference that is not VARIABLE=SECRET, and a variable that is given twice", async () => {
    const create = (...flags: ReadonlyArray<string>) =>
      runCommand(["endpoints", "create", "one", "--external", ...flags], { env })
    for (const wrong of ["TOKEN", "=hf-token", "TOKEN=", "TOKEN=a b"]) {
      expect((await create("--secret", wrong)).stderr).toContain(
        `--secret ${wrong}: expected the name of a variable and the name of a secret.`
      )
    }
    expect((await create("--secret", "TOKEN=a", "--env", "TOKEN=b")).stderr).toContain("The variable TOKEN is given twice")
  })
})
