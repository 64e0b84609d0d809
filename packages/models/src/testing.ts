/**
 * A model hub for tests, with a storage service at another address, like the public hub.
 *
 * Large files (`lfs`) are redirected to the storage service. {@link TestHub.faults} makes both misbehave.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { createHash } from "node:crypto"
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"

/** A file of a test model. */
export interface TestFile {
  readonly content: Buffer
  /** Whether the hub stores it in its storage service, under its SHA-256. Default: false. */
  readonly lfs?: boolean
  /** The size in the hub's list. Default: the size of the content. */
  readonly listedSize?: number
}

/** A model on the test hub. Its files may be replaced, and `main` moved. */
export interface TestModel {
  commit: string
  files: Readonly<Record<string, TestFile>>
  /** The token that is required. Default: none. */
  token?: string
}

/** The faults to simulate. Each member applies until it is reset. */
export interface HubFaults {
  /** Responds to every request with this status and this `X-Error-Code`. */
  status: { readonly code: number; readonly error?: string } | undefined
  /** The number of file bodies that are cut off halfway. The reader may lose bytes that were sent before the cut. */
  cuts: number
  /** Bodies stop halfway, and their connections stay open. */
  stalls: boolean
  /** The number of bodies of large files with a wrong byte. */
  wrong: number
  /** Offsets are ignored: every body begins at the start. */
  ignoresRanges: boolean
  /** The list contains neither sizes nor checksums, as on some mirrors. */
  hidesDetails: boolean
  /** The headers of files contain no sizes either, as behind a compressing proxy. */
  hidesSizes: boolean
  /** Bodies of files wait until this completes. */
  gate: Promise<void> | undefined
}

/** A request as the hub or the storage service received it. */
export interface TestRequest {
  readonly at: "hub" | "storage"
  readonly method: string
  readonly path: string
  readonly authorization: string | undefined
  readonly range: string | undefined
}

/** A running hub. */
export interface TestHub {
  readonly url: string
  readonly models: Map<string, TestModel>
  readonly faults: HubFaults
  readonly requests: Array<TestRequest>
}

/** The name of a large file's content. */
export const sha256 = (content: Buffer): string => createHash("sha256").update(content).digest("hex")

/** The name of a small file's content: the SHA-1 of a git object. */
export const gitSha1 = (content: Buffer): string =>
  createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex")

const etagOf = ({ content, lfs }: TestFile): string => lfs === true ? sha256(content) : gitSha1(content)

const listen = (handle: (request: IncomingMessage, response: ServerResponse) => void) =>
  Effect.acquireRelease(
    Effect.callback<{ readonly server: Server; readonly url: string }>((resume) => {
      const server = createServer(handle)
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        resume(Effect.succeed({ server, url: `http://127.0.0.1:${port}` }))
      })
    }),
    ({ server }) =>
      Effect.callback<void>((resume) => {
        server.closeAllConnections()
        server.close(() => resume(Effect.void))
      })
  )

const respond = (response: ServerResponse, status: number, headers: Record<string, string>, body = "") => {
  response.writeHead(status, headers)
  response.end(body)
}

/** Starts the hub on a free port. It stops when the scope closes. */
export const makeTestHub: Effect.Effect<TestHub, never, Scope.Scope> = Effect.gen(function*() {
  const models = new Map<string, TestModel>()
  const requests: Array<TestRequest> = []
  const faults: HubFaults = {
    status: undefined,
    cuts: 0,
    stalls: false,
    wrong: 0,
    ignoresRanges: false,
    hidesDetails: false,
    hidesSizes: false,
    gate: undefined
  }

  const record = (at: TestRequest["at"], { headers, method = "", url = "" }: IncomingMessage) => {
    requests.push({ at, method, path: url, authorization: headers.authorization, range: headers.range })
  }

  /** Sends the content of a file, from the requested offset on. */
  const send = async (request: IncomingMessage, response: ServerResponse, content: Buffer, isLarge: boolean) => {
    await faults.gate
    const [, offset] = /^bytes=(\d+)-$/.exec(request.headers.range ?? "") ?? []
    const from = offset === undefined || faults.ignoresRanges ? 0 : Number(offset)
    const body = Buffer.from(content.subarray(from))
    if (isLarge && faults.wrong > 0 && from === 0 && body.length > 0) {
      faults.wrong -= 1
      body.writeUInt8(body.readUInt8(0) ^ 1, 0)
    }
    response.writeHead(from === 0 ? 200 : 206, {
      "content-length": String(body.length),
      ...(from === 0 ? {} : { "content-range": `bytes ${from}-${content.length - 1}/${content.length}` })
    })
    if (faults.stalls) {
      response.write(body.subarray(0, Math.ceil(body.length / 2)))
      return
    }
    if (faults.cuts > 0 && body.length > 1) {
      faults.cuts -= 1
      response.write(body.subarray(0, Math.ceil(body.length / 2)), () => response.socket?.end())
      return
    }
    response.end(body)
  }

  const fileAt = (path: string) => {
    const [, id = "", revision = "", name = ""] = /^\/([^/]+\/[^/]+)\/resolve\/([^/]+)\/(.+)$/.exec(path) ?? []
    const model = models.get(id)
    const file = model?.files[decodeURIComponent(name)]
    return model === undefined || file === undefined ? undefined : { id, model, file, revision, name: decodeURIComponent(name) }
  }

  const storage = yield* listen((request, response) => {
    record("storage", request)
    const [id = "", name = ""] = decodeURIComponent((request.url ?? "").slice(1)).split("|")
    const file = models.get(id)?.files[name]
    if (file === undefined) return respond(response, 404, {})
    void send(request, response, file.content, true)
  })

  const isAllowed = ({ token }: TestModel, request: IncomingMessage) =>
    token === undefined || request.headers.authorization === `Bearer ${token}`

  const list = ({ commit, files }: TestModel): string =>
    JSON.stringify({
      sha: commit,
      siblings: Object.entries(files).map(([rfilename, file]) => ({
        rfilename,
        ...(faults.hidesDetails ? {} : {
          size: file.listedSize ?? file.content.length,
          blobId: gitSha1(file.content),
          ...(file.lfs === true
            ? { lfs: { sha256: sha256(file.content), size: file.listedSize ?? file.content.length, pointerSize: 130 } }
            : {})
        })
      }))
    })

  const hub = yield* listen((request, response) => {
    record("hub", request)
    if (faults.status !== undefined) {
      const { code, error } = faults.status
      return respond(response, code, error === undefined ? {} : { "x-error-code": error })
    }
    const path = (request.url ?? "").split("?")[0] ?? ""
    const [, id, revision = ""] = /^\/api\/models\/([^/]+\/[^/]+)\/revision\/([^/]+)$/.exec(path) ?? []
    if (id !== undefined) {
      const model = models.get(id)
      if (model === undefined || !isAllowed(model, request)) return respond(response, 401, { "x-error-code": "RepoNotFound" })
      if (revision !== "main" && revision !== model.commit) return respond(response, 404, { "x-error-code": "RevisionNotFound" })
      return respond(response, 200, { "content-type": "application/json" }, list(model))
    }
    const found = fileAt(path)
    if (found === undefined) return respond(response, 404, { "x-error-code": "EntryNotFound" })
    const { file, model, name } = found
    if (!isAllowed(model, request)) return respond(response, 401, { "x-error-code": "RepoNotFound" })
    const size = String(file.content.length)
    if (file.lfs === true) {
      return respond(response, 302, {
        location: `${storage.url}/${encodeURIComponent(`${found.id}|${name}`)}`,
        "x-repo-commit": model.commit,
        "x-linked-etag": `"${etagOf(file)}"`,
        ...(faults.hidesSizes ? {} : { "x-linked-size": size })
      })
    }
    response.setHeader("x-repo-commit", model.commit)
    response.setHeader("etag", `W/"${etagOf(file)}"`)
    if (request.method === "HEAD") return respond(response, 200, faults.hidesSizes ? {} : { "content-length": size })
    void send(request, response, file.content, false)
  })

  return { url: hub.url, models, faults, requests }
})
