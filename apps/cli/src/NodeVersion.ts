/**
 * The Node versions that run the platform. `bin.ts` checks them before it loads anything else, because an older Node fails with an unhelpful syntax
 * error or a missing built-in module. So this module imports nothing and uses only old syntax.
 */

/**
 * `engines` of the published packages. Node 22 before 22.19 lacks parts of the HTTP client's interface, and Node 23 lacks `node:sqlite`
 * without a flag in its first releases.
 */
export const SUPPORTED = "^22.19.0 || >=24"

/** What to install if `version` (`process.versions.node`) cannot run the platform; undefined if it can. */
export const problemOf = (version: string): string | undefined => {
  const [major = 0, minor = 0] = version.split(".").map(Number)
  if (major >= 24 || (major === 22 && minor >= 19)) return undefined
  return [
    `stint cannot run on Node ${version}. It needs Node 24 or newer, or Node 22.19 or a newer release of Node 22.`,
    "Install Node 24, for example with `nvm install 24` or `fnm install 24`, or from https://nodejs.org.",
    "To try stint without installing Node: npx -y -p node@24 -p @stint/cli stint --help"
  ].join("\n")
}
