import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync } from "node:fs"
import { createServer, type IncomingMessage } from "node:http"
import { join } from "node:path"
import process from "node:process"
import { clone, type CloneRequest } from "../src/GitClone.ts"
import { TestRepository } from "./TestRepository.ts"

const repository = Effect.acquireRelease(
  Effect.sync(() => new TestRepository()),
  (one) => Effect.sync(() => one[Symbol.dispose]())
)

const request = (one: TestRepository, overrides: Partial<CloneRequest> = {}): CloneRequest => {
  const folder = mkdtempSync(join(one.folder, "clone-"))
  const keys = mkdtempSync(join(one.folder, "keys-"))
  return {
    repository: one.path,
    ref: undefined,
    credential: undefined,
    folder,
    keys,
    knownHosts: join(one.folder, "known_hosts"),
    localFolders: [one.folder],
    log: () => undefined,
    ...overrides
  }
}

const failureOf = (one: CloneRequest) => Effect.map(Effect.flip(clone(one)), ({ message }) => message)

describe("a clone", () => {
  it.live("has the files and the commit of the default branch, a branch, a tag, a commit and an abbreviated commit", () =>
    Effect.gen(function*() {
      const one = yield* repository
      const first = one.commit({ "handler.py": "1" })
      one.git("tag", "v1")
      const second = one.commit({ "handler.py": "2", "lab1/ü b.py": "" })
      one.git("checkout", "--quiet", "-b", "feature/x")
      const third = one.commit({ "handler.py": "3" })
      one.git("checkout", "--quiet", "main")
      const commits = [[undefined, second], ["main", second], ["feature/x", third], ["v1", first], [first, first], [
        first.slice(0, 8),
        first
      ]]
      for (const [ref, commit] of commits) {
        const asked = request(one, { ref })
        const cloned = yield* clone(asked)
        assert.strictEqual(cloned.commit, commit, ref)
        assert.strictEqual(cloned.files.includes("lab1/ü b.py"), commit !== first)
        assert.strictEqual(
          readFileSync(join(asked.folder, "handler.py"), "utf8"),
          commit === first ? "1" : commit === second ? "2" : "3"
        )
      }
      const url = yield* clone(request(one, { repository: `file://${one.path}` }))
      assert.strictEqual(url.commit, second)
    }))

  it.live("fails with the true reason: an unknown branch, an unknown repository, and a folder that is not allowed", () =>
    Effect.gen(function*() {
      const one = yield* repository
      one.commit({})
      assert.include(
        yield* failureOf(request(one, { ref: "no-such" })),
        `${one.path} has no branch, tag or commit "no-such". Push it, or correct`
      )
      assert.include(yield* failureOf(request(one, { ref: "abcdef0123" })), "has no branch, tag or commit \"abcdef0123\"")
      const missing = join(one.folder, "missing.git")
      assert.include(yield* failureOf(request(one, { repository: missing })), `The repository ${missing} does not exist`)
      assert.include(
        yield* failureOf(request(one, { localFolders: [] })),
        "in a folder from which builds may not clone. An operator can allow it: set STINT_BUILD_FOLDERS"
      )
      const allowed = join(one.folder, "allowed")
      mkdirSync(allowed)
      symlinkSync(one.path, join(allowed, "link.git"))
      assert.include(
        yield* failureOf(request(one, { repository: join(allowed, "link.git"), localFolders: [allowed] })),
        "in a folder from which builds may not clone"
      )
      const empty = join(one.folder, "empty.git")
      one.git("init", "--quiet", "--bare", empty)
      assert.include(yield* failureOf(request(one, { repository: empty })), "A repository without commits cannot be built.")
    }))

  it.live("sends a token to its host only, never in an argument, and explains a missing and a wrong one", () =>
    Effect.gen(function*() {
      const one = yield* repository
      one.commit({})
      const seen: Array<string | undefined> = []
      const server = createServer((incoming: IncomingMessage, response) => {
        seen.push(incoming.headers.authorization)
        response.writeHead(401, { "www-authenticate": "Basic realm=\"git\"" }).end()
      })
      yield* Effect.addFinalizer(() => Effect.sync(() => void server.close()))
      yield* Effect.promise(() => new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening)))
      const address = server.address()
      const repositoryUrl = `http://127.0.0.1:${
        typeof address === "object" && address !== null ? address.port : 0
      }/team/words.git`
      const lines: Array<string> = []
      const ask = (credential: string | undefined) =>
        failureOf(request(one, { repository: repositoryUrl, credential, log: (line) => lines.push(line) }))
      assert.include(yield* ask(undefined), `${repositoryUrl} requires a token`)
      assert.deepStrictEqual([...new Set(seen)], [undefined])
      assert.include(yield* ask("the-token-0123\n"), `${repositoryUrl} rejects the token of the settings' secret`)
      assert.strictEqual(seen.at(-1), `Basic ${Buffer.from("x-access-token:the-token-0123").toString("base64")}`)
      assert.notInclude(lines.join("\n"), "the-token-0123")
    }))

  it.live("offers a deploy key to ssh, readable by the platform's user only, and explains a rejected one", () =>
    Effect.gen(function*() {
      const one = yield* repository
      const commit = one.commit({ "handler.py": "1" })
      const record = join(one.folder, "ssh-call")
      // Runs the asked program on this machine, as the ssh server of a Git host would.
      one.script(
        "ssh",
        `printf '%s\\n' "$@" > ${record}`,
        `while [ $# -gt 0 ]; do [ "$1" = -i ] && { key=$2; cat "$key" >> ${record}; stat -c %a "$key" >> ${record}; }; last=$1; shift; done`,
        `grep -q 'the wrong key' "$key" && { echo 'git@host: Permission denied (publickey).' >&2; exit 255; }`,
        "exec sh -c \"$last\""
      )
      const path = process.env["PATH"]
      process.env["PATH"] = `${one.folder}:${path}`
      yield* Effect.addFinalizer(() => Effect.sync(() => (process.env["PATH"] = path)))
      const asked = request(one, { repository: `git@host:${one.path}`, credential: "-----KEY-----\nabc\n" })
      // The stand-in's own Git must accept a folder of another user.
      one.git("config", "uploadpack.allowAnySHA1InWant", "true")
      assert.strictEqual((yield* clone(asked)).commit, commit)
      const call = readFileSync(record, "utf8")
      assert.include(call, "IdentitiesOnly=yes\n-o\nBatchMode=yes")
      assert.include(call, "-----KEY-----\nabc\n600\n")
      assert.include(
        yield* failureOf(request(one, { repository: `git@host:${one.path}`, credential: "the wrong key" })),
        `git@host:${one.path} rejects the deploy key of the settings' secret`
      )
      assert.isTrue(existsSync(join(asked.keys, "deploy-key")))
    }))
})
