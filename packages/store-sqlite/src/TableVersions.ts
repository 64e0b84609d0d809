/**
 * Records in the database which version of Stint created each table version. An older Stint that cannot open the file names the recorded version in
 * its error.
 */
import type { DatabaseSync } from "node:sqlite"
import manifest from "../package.json" with { type: "json" }

/** Records that this version of Stint wrote these tables. */
export const record = (db: DatabaseSync, tables: number): void => {
  db.prepare("INSERT OR REPLACE INTO upgrades (tables, stint, at) VALUES (?, ?, ?)").run(tables, manifest.version, Date.now())
}

/** The version of Stint that wrote these tables; null when the file does not contain it. */
export const versionOf = (db: DatabaseSync, tables: number): string | null => {
  try {
    const stint = db.prepare("SELECT stint FROM upgrades WHERE tables = ?").get(tables)?.["stint"]
    return typeof stint === "string" ? stint : null
  } catch {
    // A newer version may have removed or changed the table.
    return null
  }
}
