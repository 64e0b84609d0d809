import { Api } from "@stint/contract/Api"

const paths = new Set(Object.values(Api.groups.workers.endpoints).map(({ path }) => path.replaceAll(/:(\w+)/g, "{$1}")))

/** Whether a path of the OpenAPI document is one of the worker API, which accepts only the keys of workers. */
export const isWorkerPath = (template: string): boolean => paths.has(template)
