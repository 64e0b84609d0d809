import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { chmodSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import * as HandlerBundle from "../src/HandlerBundle.ts"
import { environmentOf, makeFolders, OWNER_ONLY } from "../src/WorkerUser.ts"
import { folder, fresh, line, script, start, withPool } from "./TestProcesses.ts"

const NOBODY = { uid: 65_534, gid: 65_534, name: "nobody", home: "/nonexistent" }

const modeOf = (path: string) => statSync(path).mode & 0o777

describe("workers under another user", () => {
  it("have that user's name and home, and no folder of the platform's user", () =>
    assert.deepStrictEqual(
      environmentOf(NOBODY, { PATH: "/bin", HOME: "/root", USER: "root", TMPDIR: "/root/tmp", XDG_CACHE_HOME: "/root/.cache" }),
      {
        PATH: "/bin",
        HOME: "/nonexistent",
        USER: "nobody",
        LOGNAME: "nobody"
      }
    ))

  it.live("bundles are readable by their owner only, unless workers have another user", () =>
    Effect.gen(function*() {
      const file = script("console.log(1)")
      for (
        const [permissions, expected] of [[OWNER_ONLY, [0o600, 0o700]], [{ file: 0o644, folder: 0o755 }, [0o644, 0o755]]] as const
      ) {
        const directory = join(folder, fresh("bundles"))
        const program = yield* HandlerBundle.bundle(file, directory, { permissions })
        assert.deepStrictEqual([modeOf(program), modeOf(join(program, ".."))], [...expected])
      }
    }))

  it.skipIf(process.getuid?.() !== 0)(
    "the compile cache belongs to that user, and bundles to the platform, whatever the umask",
    () => {
      const parent = join(folder, fresh("cache"))
      const umask = process.umask(0o077)
      const { bundles, compileCache } = makeFolders(join(parent, "one"), NOBODY)
      process.umask(umask)
      assert.deepStrictEqual([statSync(compileCache).uid, modeOf(compileCache)], [NOBODY.uid, 0o700])
      assert.deepStrictEqual([statSync(bundles).uid, modeOf(bundles), modeOf(join(parent, "one")), modeOf(parent)], [
        0,
        0o755,
        0o755,
        0o755
      ])
    }
  )

  it.live.skipIf(process.getuid?.() !== 0)(
    "run as it, from a bundle outside the data folder, and cannot read the data folder",
    () =>
      Effect.gen(function*() {
        const dataDir = join(folder, fresh("data"))
        const cacheDir = join(folder, fresh("cache"))
        chmodSync(folder, 0o755)
        mkdirSync(dataDir, { mode: 0o700 })
        writeFileSync(join(dataDir, "secret"), "of the platform", { mode: 0o600 })
        const mark = fresh("user")
        const file = script(`
        import { readFileSync } from "node:fs"
        const attempt = (path) => { try { return readFileSync(path, "utf8") } catch (error) { return error.code } }
        console.log("${mark}", JSON.stringify([
          process.getuid(), process.getgid(), process.getgroups(), process.env.HOME,
          attempt(${JSON.stringify(join(dataDir, "secret"))}), attempt("/proc/" + process.ppid + "/environ"),
          process.argv[1].startsWith(${JSON.stringify(cacheDir)})
        ]))
      `)
        yield* HandlerBundle.bundle(file, join(cacheDir, "bundles"), { permissions: { file: 0o644, folder: 0o755 } })
        yield* withPool(Effect.flatMap(start({ type: "handler", file }), ({ exit }) => exit), {
          dataDir,
          cacheDir,
          bundle: true,
          user: NOBODY
        })
        assert.deepStrictEqual(JSON.parse(yield* line(`${mark} `)), [
          NOBODY.uid,
          NOBODY.gid,
          [NOBODY.gid],
          NOBODY.home,
          "EACCES",
          "EACCES",
          true
        ])
        assert.isNotEmpty(readdirSync(join(cacheDir, "compile-cache")))
      })
  )
})
