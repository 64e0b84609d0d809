/**
 * Frozen bundles of handlers, by the hash of what they were built from.
 *
 * ```
 *   dataDir/releases/<hash>/          worker.mjs + chunks + source maps + bundle.sha256; complete, because the folder is renamed into place
 *   dataDir/releases/.new-...         being written; a killed platform leaves it behind
 *   cacheDir/releases/<hash>/         a copy that the workers' own user can read; only with such a user, made again when it is missing
 * ```
 *
 * esbuild does not always build the same files from the same sources: in one of 25 builds, it numbers some local variables differently. So the hash is
 * that of the sources and not of the bundle. Otherwise, a node could not rebuild the code of a release that another node has made, and a restart could
 * make a new release of unchanged code. `bundle.sha256` is the hash of the other files, so that a damaged copy is detected.
 *
 * A bundle contains the handler's own files, Stint and Effect. Other packages stay in their installation (see `HandlerBundle`), so an
 * upgrade of such a package changes what all releases run.
 */
import type { ReleaseCode } from "@stint/contract/Release"
import { type CodeArtifacts, CodeError } from "@stint/pool/CodeArtifacts"
import type { CodeTransfer } from "@stint/pool/CodeTransfer"
import { PoolError, PoolUnavailable, SpawnFailed } from "@stint/pool/PoolError"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import { createHash, hash, randomUUID } from "node:crypto"
import { existsSync } from "node:fs"
import { chmod, mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises"
import { dirname, join, relative, resolve, sep } from "node:path"
import * as HandlerBundle from "./HandlerBundle.ts"
import { type BundlePermissions, OWNER_ONLY } from "./WorkerUser.ts"

/** The prefix of folders that are being written. */
const UNFINISHED = ".new-"

/** The file with the hash of the other files. Code of earlier versions has none, and is named by that hash. */
const CHECKSUM = "bundle.sha256"

/** The name of code: a SHA-256 hash. */
const HASH = /^[0-9a-f]{64}$/

/** The name of a file in a bundle. */
const FILE_NAME = /^[\w-][\w.-]{0,254}$/

/** How often a bundle is rebuilt because a source changed during the build, and the pause before each rebuild. */
const REBUILDS = { times: 4, pause: "50 millis" } as const

export interface FrozenCode extends Pick<CodeArtifacts["Service"], "freeze" | "retain"> {
  readonly transfer: CodeTransfer["Service"]
  /**
   * The program of frozen code. Missing code is rebuilt from `handler`, because another node may have made the release; the result is the same if its
   * files have not changed. Fails if the code is still missing.
   */
  readonly programOf: (hash: string, endpoint: string, handler?: string) => Effect.Effect<string, PoolError>
}

/** Folders and permissions. */
export interface Options {
  readonly dataDir: string
  /** The folder of bundles, so that an unchanged handler need not be rebuilt. */
  readonly bundles: string
  /** A folder for copies that the workers' user can read, and their permissions. Default: workers read the original. */
  readonly copies?: { readonly folder: string; readonly permissions: BundlePermissions }
  readonly bundle: HandlerBundle.BundleOptions
  /** Held during each build, so that no handler is bundled twice at the same time. Default: a new semaphore. */
  readonly building?: Semaphore.Semaphore
}

const SourceMap = Schema.fromJsonString(Schema.Struct({ sources: Schema.Array(Schema.String) }))
const decodeMap = Schema.decodeUnknownSync(SourceMap)

/** A source map whose sources have absolute paths, because the bundle is moved. */
const withAbsoluteSources = (text: string, folder: string): string => {
  const { sources } = decodeMap(text)
  const map: unknown = JSON.parse(text)
  return JSON.stringify({ ...(typeof map === "object" ? map : {}), sources: sources.map((path) => resolve(folder, path)) })
}

/** The files of a bundle, by name. */
const filesOf = async (folder: string): Promise<ReadonlyArray<readonly [string, Buffer]>> => {
  const names = (await readdir(folder)).sort()
  return Promise.all(names.map(async (name) => {
    const content = await readFile(join(folder, name))
    return [name, name.endsWith(".map") ? Buffer.from(withAbsoluteSources(content.toString("utf8"), folder)) : content] as const
  }))
}

/** The hash of files with their names. */
const hashOf = (files: ReadonlyArray<readonly [string, Buffer]>): string => {
  const digest = createHash("sha256")
  for (const [name, content] of files) digest.update(`${name.length} ${name} ${content.length} `).update(content)
  return digest.digest("hex")
}

/** Whether the files are complete and unchanged. */
const isIntact = (name: string, files: ReadonlyArray<readonly [string, Buffer]>): boolean => {
  const checksum = files.find(([file]) => file === CHECKSUM)?.[1].toString("utf8")
  return hashOf(files.filter(([file]) => file !== CHECKSUM)) === (checksum ?? name)
}

/** The folder that contains all of these files. */
const commonFolder = (paths: ReadonlyArray<string>): string => {
  const [first, ...others] = paths.map((path) => dirname(path).split(sep))
  if (first === undefined) return sep
  const length = others.reduce((known, parts) => {
    const differs = parts.findIndex((part, index) => part !== first[index])
    return Math.min(known, differs === -1 ? parts.length : differs)
  }, first.length)
  return first.slice(0, length).join(sep) || sep
}

/** The folder of the project that contains the file: the nearest one with a package.json, otherwise the file's own folder. */
const projectOf = (file: string): string => {
  for (let folder = dirname(file);; folder = dirname(folder)) {
    if (existsSync(join(folder, "package.json"))) return folder
    if (folder === dirname(folder)) return dirname(file)
  }
}

/** Writes a folder so that it exists completely or not at all, even after a power failure. */
const writeFolder = async (
  parent: string,
  name: string,
  files: ReadonlyArray<readonly [string, Buffer]>,
  permissions: BundlePermissions
): Promise<void> => {
  await mkdir(parent, { recursive: true, mode: permissions.folder })
  const unfinished = join(parent, `${UNFINISHED}${randomUUID()}`)
  try {
    await mkdir(unfinished, { mode: permissions.folder })
    // Independent of the umask.
    await chmod(parent, permissions.folder)
    await chmod(unfinished, permissions.folder)
    for (const [file, content] of files) {
      const handle = await open(join(unfinished, file), "wx", permissions.file)
      try {
        await handle.chmod(permissions.file)
        await handle.writeFile(content)
        await handle.sync()
      } finally {
        await handle.close()
      }
    }
    await rename(unfinished, join(parent, name))
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true })
    // Another call has written the same content.
    if (!existsSync(join(parent, name))) throw error
  }
}

/** Opens the folder, and removes what a killed platform left behind. */
export const make = Effect.fnUntraced(function*(
  { building = Semaphore.makeUnsafe(1), bundle: bundleOptions, bundles, copies, dataDir }: Options
): Effect.fn.Return<FrozenCode> {
  const folder = join(dataDir, "releases")
  const one = yield* Semaphore.make(1)

  const removeExcept = (parent: string, keep: (name: string) => boolean) =>
    Effect.ignore(Effect.tryPromise(async () => {
      const names = existsSync(parent) ? await readdir(parent) : []
      for (const name of names) if (!keep(name)) await rm(join(parent, name), { recursive: true, force: true })
    }))
  yield* removeExcept(folder, (name) => !name.startsWith(UNFINISHED))

  const refused = (file: string, problem: string, hint: string) => new CodeError({ file, problem, hint })

  /** The files of a bundle, and the content of its inputs. */
  const read = (program: string, { files, packages }: HandlerBundle.Inputs, file: string) =>
    Effect.tryPromise({
      try: async () => {
        const bundle = await filesOf(dirname(program))
        const inputs = await Promise.all(
          files.toSorted().map(async (path) => [path, await readFile(path)] as const)
        )
        const imported = packages.toSorted().map((path) => [path, Buffer.alloc(0)] as const)
        return {
          // The name of the handler's file is part of the bundle, too.
          name: hashOf([[file, Buffer.alloc(0)], ...inputs, ...imported]),
          bundle: [...bundle, [CHECKSUM, Buffer.from(hashOf(bundle))] as const],
          sources: inputs.filter(([path]) => !HandlerBundle.isInstalled(path))
        }
      },
      catch: (cause) =>
        refused(
          file,
          `its bundle cannot be read (${cause instanceof Error ? cause.message : String(cause)})`,
          "Deploy again when its files are saved."
        )
    })

  /** A consistent bundle and its sources; undefined if the sources changed during every attempt. */
  const settled = Effect.fnUntraced(function*(file: string) {
    for (let tries = 0; tries <= REBUILDS.times; tries++) {
      const program = yield* Effect.mapError(
        building.withPermits(1)(HandlerBundle.bundle(file, bundles, bundleOptions)),
        ({ mistakes, problem }) =>
          mistakes.length > 0
            ? refused(file, `it has mistakes:\n${mistakes.join("\n")}\n`, "Correct them, then deploy again.")
            : refused(
              file,
              problem,
              "A release needs a bundle of its handler. Remove the cause, or run the program as a command, for example with `node handler.ts`."
            )
      )
      const inputs = yield* HandlerBundle.inputs(file, bundles)
      const found = inputs === undefined ? undefined : yield* read(program, inputs, file)
      if (found !== undefined && (yield* HandlerBundle.find(file, bundles)) === program) return found
      yield* Effect.sleep(REBUILDS.pause)
    }
    return undefined
  })

  const freezeHandler = Effect.fnUntraced(function*(file: string): Effect.fn.Return<ReleaseCode, CodeError> {
    const exists = yield* Effect.promise(() => stat(file).then((found) => found.isFile(), () => false))
    if (!exists) return yield* refused(file, "there is no such file", "Correct the path of the handler, or create the file.")
    const found = yield* settled(file)
    if (found === undefined) {
      return yield* refused(
        file,
        "its sources keep changing",
        "Deploy again when they are saved, and check that their modification times are not in the future."
      )
    }
    const { name } = found
    if (!existsSync(join(folder, name))) {
      yield* Effect.tryPromise({
        try: () => writeFolder(folder, name, found.bundle, OWNER_ONLY),
        catch: (cause) =>
          refused(
            file,
            `its bundle cannot be stored in ${folder} (${cause instanceof Error ? cause.message : String(cause)})`,
            "Make the folder writable and free space, then deploy again."
          )
      })
    }
    const project = projectOf(file)
    const own = found.sources.filter(([path]) => path.startsWith(project + sep))
    const common = commonFolder(own.map(([path]) => path))
    const files = own
      .map(([path, content]) => ({ path: relative(common, path), hash: hash("sha256", content, "hex") }))
      .sort((a, b) => (a.path < b.path ? -1 : 1))
    return { hash: name, files }
  })

  /** The folder from which workers read the code. */
  const placeOf = async (name: string): Promise<string> => {
    if (copies === undefined) return join(folder, name)
    if (!existsSync(join(copies.folder, name))) {
      await writeFolder(copies.folder, name, await filesOf(join(folder, name)), copies.permissions)
    }
    return join(copies.folder, name)
  }

  const missing = (name: string, endpoint: string) =>
    new PoolError({
      reason: new SpawnFailed({
        path: join(folder, name),
        problem: "the code of this release is missing",
        hint: `Deploy the endpoint again (stint deploy ${endpoint}), or restore the folder from a backup.`
      })
    })

  /** The stored files of frozen code; undefined if there are none. */
  const stored = (name: string) =>
    Effect.tryPromise(async () =>
      HASH.test(name) && existsSync(join(folder, name)) ? await filesOf(join(folder, name)) : undefined
    )
      .pipe(Effect.orElseSucceed(() => undefined))

  const transfer: CodeTransfer["Service"] = {
    has: (name) => Effect.sync(() => HASH.test(name) && existsSync(join(folder, name))),
    read: (name) => Effect.map(stored(name), (files) => files === undefined ? undefined : Object.fromEntries(files)),
    write: (name, content) => {
      const files = Object.entries(content).map(([file, bytes]) => [file, Buffer.from(bytes)] as const)
        .sort(([a], [b]) => (a < b ? -1 : 1))
      if (!files.every(([file]) => FILE_NAME.test(file))) return Effect.succeed("it has a file with an invalid name")
      if (!isIntact(name, files)) return Effect.succeed("its content does not have the hash that came with it")
      return one.withPermits(1)(Effect.tryPromise(() => writeFolder(folder, name, files, OWNER_ONLY))).pipe(
        Effect.as(undefined),
        Effect.catch(({ cause }) =>
          Effect.succeed(`it cannot be stored in ${folder} (${cause instanceof Error ? cause.message : String(cause)})`)
        )
      )
    }
  }

  return {
    transfer,
    freeze: (source) =>
      source.type === "handler" ? one.withPermits(1)(freezeHandler(resolve(source.file))) : Effect.succeed(undefined),
    retain: (hashes) =>
      one.withPermits(1)(Effect.andThen(
        removeExcept(folder, (name) => hashes.has(name)),
        copies === undefined ? Effect.void : removeExcept(copies.folder, (name) => hashes.has(name))
      )),
    programOf: Effect.fnUntraced(function*(name, endpoint, handler) {
      if (handler !== undefined && !existsSync(join(folder, name))) {
        yield* Effect.ignore(one.withPermits(1)(freezeHandler(handler)))
      }
      if (!existsSync(join(folder, name))) return yield* missing(name, endpoint)
      const place = yield* Effect.tryPromise({
        try: () => placeOf(name),
        catch: (cause) =>
          new PoolError({
            reason: new PoolUnavailable({
              problem: `the code of a release cannot be copied for the workers' user (${
                cause instanceof Error ? cause.message : String(cause)
              })`,
              hint: "Make the cache folder writable and free space."
            })
          })
      })
      return HandlerBundle.programIn(place)
    })
  }
})
