/**
 * Answers that are JSON text already.
 */
import { HttpServerResponse } from "effect/http"

const JSON_TEXT = { contentType: "application/json" } as const

/** 200 with that JSON text. The content type is exactly the one that existing workers demand (docs/spec/worker-protocol.md#headers). */
export const json = (
  text: string,
  headers?: Readonly<Record<string, string>>
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(text, headers === undefined ? JSON_TEXT : { ...JSON_TEXT, headers })
