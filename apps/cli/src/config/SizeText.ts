/**
 * Sizes in flags, settings and configuration files.
 */
import * as ByteSize from "effect/ByteSize"
import * as Option from "effect/Option"

/** Parses `10 MiB`, `10MB` or `10485760` into bytes; undefined when invalid. */
export const bytesOf = (text: string): number | undefined =>
  Option.getOrUndefined(
    Option.map(ByteSize.fromString(/^\s*\d+\s*$/.test(text) ? `${text.trim()} B` : text), Number)
  )
