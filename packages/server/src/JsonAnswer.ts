/**
 * Answers that are JSON text already.
 */
import { HttpServerResponse } from "effect/http"

/** 200 with that JSON text. The content type is exactly the one that existing workers demand (wire-facts 5.3). */
export const json = (text: string): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(text, { contentType: "application/json" })
