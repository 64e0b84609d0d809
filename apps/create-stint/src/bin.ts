#!/usr/bin/env node
/**
 * `npm create stint <folder>` is `stint init <folder>`. npm runs the program `create-stint` of the package of that name.
 */
process.argv.splice(2, 0, "init")
void import("@stint/cli/bin")
