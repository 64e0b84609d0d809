#!/usr/bin/env node
/**
 * `npm create stint <folder>` is `stint init <folder>`. npm runs the program `create-stint` from the package of the same name.
 */
process.argv.splice(2, 0, "init")
void import("@stint/cli/bin")
