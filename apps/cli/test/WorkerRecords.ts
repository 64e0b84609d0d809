/**
 * The records of worker processes in a platform's data folder.
 */
import * as ProcessTable from "@stint/pool-process/ProcessTable"
import { readdir, readFile } from "node:fs/promises"
import { join } from "node:path"

/** The processes of the workers that the platform has started. */
export const workersOf = async (dataDir: string): Promise<ReadonlyArray<ProcessTable.ProcessIdentity>> => {
  const folder = join(dataDir, "workers")
  const files = (await readdir(folder)).filter((name) => name.endsWith(".json"))
  const records = await Promise.all(files.map((name) => readFile(join(folder, name), "utf8").catch(() => "null")))
  return records.flatMap((text) => {
    const record = JSON.parse(text) as { readonly identity: ProcessTable.ProcessIdentity | null } | null
    return record?.identity !== null && record !== null && ProcessTable.isRunning(record.identity) ? [record.identity] : []
  })
}
