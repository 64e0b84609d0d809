import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, symlinkSync } from "node:fs"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
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
    mask: (text) => text,
    log: () => undefined,
    ...overrides
  }
}

/** An HTTP server on a free port: its origin. */
const listen = (answer: (request: IncomingMessage, response: ServerResponse) => void) =>
  Effect.gen(function*() {
    const server = createServer((incoming, response) => {
      incoming.resume()
      answer(incoming, response)
    })
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        server.closeAllConnections()
        server.close()
      })
    )
    yield* Effect.promise(() => new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening)))
    const address = server.address()
    return `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`
  })

const requireToken = (response: ServerResponse) =>
  void response.writeHead(401, { "www-authenticate": "Basic realm=\"git\"" }).end()

/** What a Git host sends first: its branches. Git asks for a pack afterwards, with a POST. */
const ADVERTISEMENT = (() => {
  const line = (text: string) => `${(text.length + 4).toString(16).padStart(4, "0")}${text}`
  const commit = "1".repeat(40)
  const abilities = "multi_ack_detailed shallow side-band-64k"
  return `${line("# service=git-upload-pack\n")}0000${line(`${commit} HEAD\0${abilities}\n`)}${
    line(`${commit} refs/heads/main\n`)
  }0000`
})()

const TOKEN_HEADER = `Basic ${Buffer.from("x-access-token:the-token-0123").toString("base64")}`

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

  it.live("fails with the actual reason: an unknown branch, an unknown repository, and a folder that is not allowed", () =>
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

  it.live("accepts a repository of another user, by its path, through a link and by its file address", () =>
    Effect.gen(function*() {
      const one = yield* repository
      const commit = one.commit({ "handler.py": "1" })
      const bare = join(one.folder, "bare \"1\".git")
      one.git("clone", "--quiet", "--bare", one.path, bare)
      const link = join(one.folder, "link.git")
      symlinkSync(one.path, link)
      // Git's own tests use this variable, because only root can make files of another user.
      process.env["GIT_TEST_ASSUME_DIFFERENT_OWNER"] = "1"
      yield* Effect.addFinalizer(() => Effect.sync(() => delete process.env["GIT_TEST_ASSUME_DIFFERENT_OWNER"]))
      for (const place of [one.path, `${one.path}/`, `file://${one.path}`, link, bare]) {
        const cloned = yield* clone(request(one, { repository: place }))
        assert.deepStrictEqual(cloned, { commit, files: ["handler.py"] }, place)
      }
    }))

  it.live("sends a token to its host only, never in an argument, and explains a missing and a wrong token", () =>
    Effect.gen(function*() {
      const one = yield* repository
      one.commit({})
      const seen: Array<string | undefined> = []
      const origin = yield* listen((incoming, response) => {
        seen.push(incoming.headers.authorization)
        requireToken(response)
      })
      const repositoryUrl = `${origin}/team/words.git`
      const lines: Array<string> = []
      const ask = (credential: string | undefined) =>
        failureOf(request(one, { repository: repositoryUrl, credential, log: (line) => lines.push(line) }))
      assert.include(yield* ask(undefined), `${repositoryUrl} requires a token`)
      assert.deepStrictEqual([...new Set(seen)], [undefined])
      assert.include(yield* ask("the-token-0123\n"), `${repositoryUrl} rejects the token of the settings' secret`)
      assert.strictEqual(seen.at(-1), TOKEN_HEADER)
      assert.notInclude(lines.join("\n"), "the-token-0123")
    }))

  it.live("does not send a token to the host that the address redirects to, and says so", () =>
    Effect.gen(function*() {
      const one = yield* repository
      one.commit({})
      for (const asksFirst of [false, true]) {
        const seen: Array<readonly [host: string, method: string | undefined, authorization: string | undefined]> = []
        const other = yield* listen(({ headers, method }, response) => {
          seen.push(["other", method, headers.authorization])
          if (method === "POST") return requireToken(response)
          response.writeHead(200, { "content-type": "application/x-git-upload-pack-advertisement" }).end(ADVERTISEMENT)
        })
        const first = yield* listen(({ headers, method, url }, response) => {
          seen.push(["first", method, headers.authorization])
          if (asksFirst && headers.authorization === undefined) return requireToken(response)
          response.writeHead(302, { location: `${other}${url}` }).end()
        })
        const address = `${first}/team/words.git`
        const failure = yield* failureOf(request(one, { repository: address, credential: "the-token-0123" }))
        const others = seen.filter(([host]) => host === "other")
        assert.isNotEmpty(others)
        assert.deepStrictEqual(others.filter(([, , authorization]) => authorization !== undefined), [])
        // Git asks for the pack, too: some versions ask the other host, and some stay with the first host.
        assert.isTrue(seen.some(([, method]) => method === "POST"))
        assert.strictEqual(seen.some(([host, , authorization]) => host === "first" && authorization === TOKEN_HEADER), asksFirst)
        assert.include(failure, `${address} redirects to another address`)
      }
    }))

  it.live("offers a deploy key to ssh, readable by the platform's user only, and explains a rejected one", () =>
    Effect.gen(function*() {
      const one = yield* repository
      const commit = one.commit({ "handler.py": "1" })
      const record = join(one.folder, "ssh-call")
      // Runs the requested program on this machine, as the ssh server of a Git host would.
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
      assert.include(call, "-F\n/dev/null\n-o\nIdentityAgent=none\n-i\n")
      assert.include(call, "IdentitiesOnly=yes\n-o\nBatchMode=yes")
      assert.include(call, "-----KEY-----\nabc\n600\n")
      assert.include(
        yield* failureOf(request(one, { repository: `git@host:${one.path}`, credential: "the wrong key" })),
        `git@host:${one.path} rejects the deploy key of the settings' secret`
      )
      assert.isTrue(existsSync(join(asked.keys, "deploy-key")))
    }))

  it.live("without a deploy key, does not use the keys, the agent or the settings of the platform's user for ssh", () =>
    Effect.gen(function*() {
      const one = yield* repository
      one.commit({})
      const record = join(one.folder, "ssh-call")
      one.script("ssh", `printf '%s\\n' "$@" > ${record}`, "echo 'git@host: Permission denied (publickey).' >&2", "exit 255")
      const path = process.env["PATH"]
      process.env["PATH"] = `${one.folder}:${path}`
      yield* Effect.addFinalizer(() => Effect.sync(() => (process.env["PATH"] = path)))
      assert.include(
        yield* failureOf(request(one, { repository: `git@host:${one.path}` })),
        `git@host:${one.path} requires a deploy key`
      )
      const call = readFileSync(record, "utf8")
      assert.include(call, "-F\n/dev/null\n-o\nIdentityAgent=none\n-o\nPubkeyAuthentication=no\n")
      assert.notInclude(call, "-i\n")
    }))
})
