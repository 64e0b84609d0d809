import { assert, describe, it } from "@effect/vitest"
import { chmod, mkdir, mkdtemp, readdir, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SOURCE } from "./BuiltCommand.ts"
import { stint } from "./PlatformProcess.ts"

/** A cache folder, and the files in it. */
const temporary = async () => {
  const root = await mkdtemp(join(tmpdir(), "stint-cache-"))
  const compiled = join(root, "stint", "compiled")
  return {
    root,
    compiled,
    files: async () => (await readdir(compiled, { recursive: true })).length,
    [Symbol.asyncDispose]: () => rm(root, { recursive: true, force: true })
  }
}

const version = async (env: Readonly<Record<string, string>>) => {
  const { code, stderr, stdout } = await stint(undefined, ["--version"], env, SOURCE)
  assert.deepStrictEqual({ code, stderr }, { code: 0, stderr: "" })
  assert.match(stdout, /\d+\.\d+\.\d+/)
}

describe("CompileCache", () => {
  it("keeps compiled code in a folder that only the user can read", async () => {
    await using cache = await temporary()
    await version({ XDG_CACHE_HOME: cache.root })
    assert.isAbove(await cache.files(), 100)
    assert.strictEqual((await stat(cache.compiled)).mode & 0o777, 0o700)
  })

  it("is not used when others can write to the folder, because Node executes what it finds there", async () => {
    await using cache = await temporary()
    await mkdir(cache.compiled, { recursive: true })
    await chmod(cache.compiled, 0o777)
    await version({ XDG_CACHE_HOME: cache.root })
    assert.strictEqual(await cache.files(), 0)
  })

  it("is not used when its folder cannot be created, and the command runs", async () => {
    await using cache = await temporary()
    await writeFile(join(cache.root, "stint"), "")
    await version({ XDG_CACHE_HOME: cache.root })
  })

  it("is off when the environment disables Node's cache", async () => {
    await using cache = await temporary()
    await version({ XDG_CACHE_HOME: cache.root, NODE_DISABLE_COMPILE_CACHE: "1" })
    assert.strictEqual(await cache.files(), 0)
  })
})
