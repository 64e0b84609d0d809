/**
 * Recognizes the lines in which runtimes report that memory ran out.
 */

/**
 * V8 (`JavaScript heap out of memory`, `Fatal process out of memory`), Node (`ERR_MEMORY_ALLOCATION_FAILED`), Python (`MemoryError`), C++
 * (`std::bad_alloc`), Rust (`memory allocation of 8 bytes failed`), Go (`runtime: out of memory`), and the system's ENOMEM. GPU memory is not
 * included, because its remedy differs.
 */
const REPORT =
  /(?:heap|process|JavaScript|runtime:|fatal error:) out of memory|# Fatal .*\bOOM\b|ERR_MEMORY_ALLOCATION_FAILED|Array buffer allocation failed|(?:^|\W)MemoryError\b|std::bad_alloc|memory allocation of \d+ bytes failed|Cannot allocate memory/

/** Whether a line reports that memory ran out. */
export const reportsOutOfMemory = (line: string): boolean => REPORT.test(line)
