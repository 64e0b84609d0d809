/**
 * The built files of the web console. The published package contains them (scripts/bundle.ts); in a clone, `pnpm build` writes them to
 * apps/console/dist.
 *
 * ```
 *   apps/cli/src/platform/   this file in a clone       ../../../console/dist
 *   dist/                    the published bundle       ./console
 *   dist/chunks/             a part of it               ../console
 * ```
 */
import { basename, join } from "node:path"

const folderFrom = (here: string): string => {
  switch (basename(here)) {
    case "platform":
      return join(here, "../../../console/dist")
    case "chunks":
      return join(here, "../console")
    default:
      return join(here, "console")
  }
}

/** The folder, whether or not the console was built. */
export const consoleFolder: string = folderFrom(import.meta.dirname)
