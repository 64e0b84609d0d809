/**
 * The part of the platform's environment that workers inherit. Everything else stays with the platform: an operator's shell or service file
 * often contains credentials (`AWS_SECRET_ACCESS_KEY`, `DATABASE_URL`), and a handler would hand them to its dependencies and their child
 * processes. An endpoint's `env` and the `inherit` option of the pool pass further variables.
 *
 * The list contains what programs need to start and to reach the network, and the settings of the worker SDK. Settings that may hold a
 * credential (`BUCKET_*`, `OTEL_EXPORTER_OTLP_HEADERS`) are not in it, with one exception: the proxy variables may contain a password, but
 * without them a worker behind a proxy cannot work at all.
 */
import { ENV_PREFIXES } from "@stint/contract/WorkerProtocol"

/** Names of variables. A trailing `*` matches every name that starts with the text before it. */
export type VariablePatterns = ReadonlyArray<string>

const words = (text: string): ReadonlyArray<string> => text.trim().split(/\s+/)

/** The process, its user and its locale. */
const SYSTEM = words(`
  PATH HOME USER LOGNAME SHELL HOSTNAME LANG LANGUAGE LC_* TZ TZDIR TERM NO_COLOR FORCE_COLOR TMPDIR TMP TEMP
  XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR
`)

/** Programs on Windows do not start without some of these. */
const WINDOWS = words(`
  SYSTEMROOT SYSTEMDRIVE WINDIR COMSPEC PATHEXT USERNAME USERPROFILE HOMEDRIVE HOMEPATH APPDATA LOCALAPPDATA PROGRAMDATA PROGRAMFILES
  NUMBER_OF_PROCESSORS PROCESSOR_ARCHITECTURE
`)

/** Node, Python, dynamic libraries, threads and GPUs. Not `NODE_*`, because `NODE_AUTH_TOKEN` is the credential of a package registry. */
const RUNTIMES = words(`
  NODE_ENV NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED NODE_USE_ENV_PROXY NODE_USE_SYSTEM_CA NODE_NO_WARNINGS
  NODE_PENDING_DEPRECATION NODE_DEBUG NODE_ICU_DATA NODE_V8_COVERAGE NODE_COMPILE_CACHE NODE_DISABLE_COMPILE_CACHE UV_THREADPOOL_SIZE
  PYTHONPATH PYTHONHOME PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV
  LD_LIBRARY_PATH LD_PRELOAD DYLD_LIBRARY_PATH DYLD_FALLBACK_LIBRARY_PATH MALLOC_* OMP_NUM_THREADS
  CUDA_* NVIDIA_* HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES HSA_OVERRIDE_GFX_VERSION
`)

/** Proxies and certificates. */
const NETWORK = words(`
  HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy all_proxy no_proxy
  SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
`)

/** Telemetry, without `OTEL_EXPORTER_OTLP_HEADERS`, which contains the collector's key. */
const TELEMETRY = words(`
  OTEL_SDK_DISABLED OTEL_SERVICE_NAME OTEL_RESOURCE_ATTRIBUTES OTEL_PROPAGATORS OTEL_TRACES_* OTEL_BSP_*
  ${
  ["", "TRACES_"].flatMap((signal) =>
    words("ENDPOINT PROTOCOL TIMEOUT COMPRESSION CERTIFICATE").map((name) => `OTEL_EXPORTER_OTLP_${signal}${name}`)
  ).join(" ")
}
`)

/** The settings of the worker SDK, without prefix (docs/spec/environment.md#set-by-the-user). */
export const WORKER_SETTINGS = words(`
  LOG_LEVEL DEBUG_LEVEL SHUTDOWN_GRACE UNREACHABLE_LIMIT SETUP_TIMEOUT DOWNLOAD_ALLOW UPLOAD_ALLOW VOLUME_PATH MIN_MEMORY_GB MIN_DISK_PERCENT MIN_CUDA_VERSION
  SKIP_GPU_CHECK SKIP_AUTO_SYSTEM_CHECKS NETWORK_CHECK_TIMEOUT GPU_TEST_TIMEOUT GPU_BENCHMARK_TIMEOUT GPU_TEST_COMMAND
`)

const ALWAYS: VariablePatterns = [
  ...SYSTEM,
  ...WINDOWS,
  ...RUNTIMES,
  ...NETWORK,
  ...TELEMETRY,
  ...ENV_PREFIXES.flatMap((prefix) => WORKER_SETTINGS.map((name) => prefix + name))
]

/** The platform's own settings. No pattern matches them. */
const isOwnSetting = (name: string): boolean => name === "PORT" || /^STINT_/i.test(name)

const matcherOf = (patterns: VariablePatterns, ignoreCase: boolean): (name: string) => boolean => {
  const fold = (text: string) => ignoreCase ? text.toUpperCase() : text
  const names = new Set(patterns.map(fold))
  const prefixes = patterns.filter((one) => one.endsWith("*")).map((one) => fold(one.slice(0, -1)))
  return (name) => names.has(fold(name)) || prefixes.some((prefix) => fold(name).startsWith(prefix))
}

/** The variables that a worker inherits. `inherit`: further variables; `["*"]` passes all except the platform's own settings. */
export const inheritedEnvironment = (
  environment: Readonly<Record<string, string | undefined>>,
  inherit: VariablePatterns = [],
  ignoreCase = process.platform === "win32"
): Record<string, string> => {
  const matches = matcherOf([...ALWAYS, ...inherit], ignoreCase)
  const result: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && !isOwnSetting(name) && matches(name)) result[name] = value
  }
  return result
}
