import { registerHooks } from "node:module"

/**
 * Records the URL of every module that this process resolves from now on. Returns a function that counts the recorded modules, all of them
 * or those whose URL matches.
 */
export const recordModules = (): (pattern?: RegExp) => number => {
  const urls = new Set<string>()
  registerHooks({
    resolve(specifier, context, nextResolve) {
      const resolved = nextResolve(specifier, context)
      urls.add(resolved.url)
      return resolved
    }
  })
  return (pattern = /^/) => [...urls].filter((url) => pattern.test(url)).length
}
