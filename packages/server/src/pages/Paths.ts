/**
 * The paths of the pages and documents that require no key, because they contain no data.
 */

/** The page that says what this server is. */
export const HOME_PATH = "/"

/** The prefix of the console's pages and files. Its home is at {@link HOME_PATH}. */
export const CONSOLE_PATH = "/console"

/** The API reference. */
export const DOCS_PATH = "/docs"

/** The OpenAPI document. */
export const OPENAPI_PATH = "/openapi.json"
