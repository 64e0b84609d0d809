/**
 * P9 (docs/spec/figures.md#performance):
 * the cost of filling a worker's directories from the network volume, and of saving new files, compared with copying them.
 *
 * - `small`: 20,000 files of 0.5 to 8.5 kB in 200 directories. `large`: 20 files of 100 MB. `both`: all of them.
 * - `sync`: directory to an empty mirror. `hydrate`: mirror to an empty disk. `one file`: a sync after one small file changed.
 *   `trusted`: `one file` with `trustDirectories`.
 * - Peers: `cp -a` and `tar | tar` of the same files between the same folders.
 *
 * Each of Stint's figures is measured in a fresh process, like a cold worker whose code is not compiled yet. The start of Node is excluded,
 * because every worker pays for it. The start of the peers is included; it takes 2 ms. A `sync` before each run flushes the disk and is not
 * counted. All files are on one local disk, and their pages are in memory.
 *
 * Each run has a new target, and small files are deleted at the end. For a minute after a deletion, ext4 does not reuse the inode but checks
 * it repeatedly, which can slow down later file creation by up to ten times.
 *
 *   node src/volume-cache.ts [rounds] [small|large|both ...]
 */
import { VolumeCache } from "@stint/worker-volume-cache"
import { spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { compare } from "./Rounds.ts"

const [first = "5", ...words] = process.argv.slice(2)

/** Milliseconds of one operation on a cache, in this process. The cached directory is `data` in the working directory. */
const operate = async (operation: string, volume: string): Promise<number> => {
  const trustDirectories = operation === "one file, trusted"
  const cache = await VolumeCache.open({ dirs: ["data"], volume, endpoint: "benchmark", trustDirectories })
  if (operation === "hydrate") return cache.hydrated[0]?.milliseconds ?? Number.NaN
  if (operation !== "sync") {
    // Writes a new version and renames it to the file's name, as compilers do with their caches. The first sync is not measured.
    for (const turn of [0, 1]) {
      if (turn === 1) await cache.sync()
      const file = join("data", `directory-${turn}`, "file-0")
      await writeFile(`${file}.tmp`, randomBytes(1000))
      await rename(`${file}.tmp`, file)
    }
  }
  const started = performance.now()
  const [report] = await cache.sync()
  if (report?.complete !== true) throw new Error(report?.firstError)
  return performance.now() - started
}

const output = (command: string, args: ReadonlyArray<string>, cwd: string): Promise<string> =>
  new Promise((done, failed) => {
    const env = { ...process.env, PLATFORM_LOG_LEVEL: "ERROR" }
    const child = spawn(command, args, { cwd, env, stdio: ["ignore", "pipe", "inherit"] })
    let text = ""
    child.stdout.setEncoding("utf8").on("data", (part: string) => {
      text += part
    })
    child.once("error", failed)
    child.once("close", (code) =>
      code === 0 ? done(text) : failed(new Error(`${command} ${args.join(" ")} exited with code ${code}: ${text}`)))
  })

const write = async (folder: string, kind: string): Promise<void> => {
  const bytes = randomBytes(1024 * 1024)
  const [directories, models] = [kind === "large" ? 0 : 200, kind === "small" ? 0 : 20]
  for (let directory = 0; directory < directories; directory++) {
    const path = join(folder, `directory-${directory}`)
    await mkdir(path, { recursive: true })
    for (let file = 0; file < 100; file++) {
      const number = directory * 100 + file
      await writeFile(join(path, `file-${file}`), bytes.subarray(number, number + 500 + (number * 7919) % 8000))
    }
  }
  await mkdir(join(folder, "models"), { recursive: true })
  for (let file = 0; file < models; file++) {
    await writeFile(join(folder, "models", `model-${file}`), Array.from({ length: 100 }, () => bytes))
  }
}

const measure = async (rounds: number, kind: string): Promise<void> => {
  const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
  try {
    const source = join(folder, "source")
    await write(join(source, "data"), kind)
    let targets = 0
    let mirror = ""
    const fresh = async (): Promise<string> => {
      const target = join(folder, `target-${targets++}`)
      await mkdir(target)
      await output("sync", [], folder)
      return target
    }
    /** Deletes the large files after each run: there are few of them, and their space is needed. */
    const dropLarge = (target: string) => rm(join(target, "data", "models"), { recursive: true, force: true })
    const peer = (command: (target: string) => string) => async () => {
      const target = await fresh()
      const started = performance.now()
      await output("sh", ["-c", command(target)], folder)
      const took = performance.now() - started
      await dropLarge(target)
      return took
    }
    const ours = async (operation: string, cwd: string) =>
      Number(await output(process.execPath, [import.meta.filename, "--operate", operation, mirror], cwd))
    const peers = [
      { name: "tar to tar", run: peer((target) => `tar -C source -cf - data | tar -C ${target} -xf -`) },
      { name: "cp -a", run: peer((target) => `cp -a source/data ${target}/data`) }
    ]
    const subjects = [
      {
        name: "sync",
        run: async () => {
          if (mirror !== "") await rm(mirror, { recursive: true, force: true })
          mirror = await fresh()
          return ours("sync", source)
        }
      },
      {
        name: "hydrate",
        run: async () => {
          const target = await fresh()
          const took = await ours("hydrate", target)
          await dropLarge(target)
          return took
        }
      }
    ]
    const changed = ["one file", "one file, trusted"].map((name) => ({ name, run: () => ours(name, source) }))
    await compare(`Volume cache: ${kind}`, "ms", rounds, [...peers, ...subjects, ...(kind === "large" ? [] : changed)])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

if (first === "--operate") {
  const [operation = "", volume = ""] = words
  process.stdout.write(String(await operate(operation, volume)))
} else {
  for (const kind of words.length === 0 ? ["small", "large", "both"] : words) await measure(Number(first), kind)
}
