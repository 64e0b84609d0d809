/**
 * HTTP over plain sockets with prebuilt request bytes, so that generating load costs less than serving it.
 */
import { connect, type Socket } from "node:net"

/** The bytes of a request. `body`: JSON, or undefined for none. */
export const requestBytes = (host: string, method: string, path: string, key: string, body: string | undefined): Buffer =>
  Buffer.from(
    `${method} ${path} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${key}\r\n` +
      (body === undefined ? "\r\n" : `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  )

export interface Answer {
  readonly status: number
  readonly body: string
}

/** A connection with one request in flight at a time. */
export interface Connection {
  readonly send: (request: Buffer, answered: (answer: Answer) => void) => void
  readonly close: () => void
}

const LENGTH = "content-length: "

/** Decodes the chunked body that begins at `start`; undefined while it is incomplete. */
const parseChunks = (text: string, start: number): { readonly body: string; readonly length: number } | undefined => {
  let body = ""
  let at = start
  for (;;) {
    const end = text.indexOf("\r\n", at)
    if (end === -1) return undefined
    const size = Number.parseInt(text.slice(at, end), 16)
    const next = end + 2 + size + 2
    if (text.length < next) return undefined
    if (size === 0) return { body, length: next }
    body += text.slice(end + 2, end + 2 + size)
    at = next
  }
}

/** Parses the response at the beginning of a text; undefined while it is incomplete. `length`: its length in the text. */
const parse = (text: string): { readonly answer: Answer; readonly length: number } | undefined => {
  const end = text.indexOf("\r\n\r\n")
  if (end === -1) return undefined
  const head = text.slice(0, end).toLowerCase()
  const status = Number(head.slice(9, 12))
  const at = head.indexOf(LENGTH)
  const start = end + 4
  if (at === -1) {
    if (status === 204) return { answer: { status, body: "" }, length: start }
    const chunks = parseChunks(text, start)
    return chunks === undefined ? undefined : { answer: { status, body: chunks.body }, length: chunks.length }
  }
  const length = start + Number.parseInt(head.slice(at + LENGTH.length), 10)
  return text.length < length ? undefined : { answer: { status, body: text.slice(start, length) }, length }
}

/** Connects to a `host:port`. */
export const open = (host: string): Promise<Connection> =>
  new Promise((resolve, reject) => {
    const [hostname = "127.0.0.1", port] = host.split(":")
    const socket: Socket = connect(Number(port), hostname, () => {
      resolve({
        send: (request, answered) => {
          waiting = answered
          socket.write(request)
        },
        close: () => socket.destroy()
      })
    })
    let waiting: (answer: Answer) => void = () => {}
    let text = ""
    socket.setNoDelay(true)
    socket.setEncoding("latin1")
    socket.on("error", reject)
    socket.on("data", (data: string) => {
      text = text === "" ? data : text + data
      const parsed = parse(text)
      if (parsed === undefined) return
      text = text.slice(parsed.length)
      waiting(parsed.answer)
    })
  })
